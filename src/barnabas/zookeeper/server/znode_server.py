"""One server of ZooKeeper's client protocol: alone, or one of an ensemble on a Raft quorum.

Whatever changes znodes or sessions is an entry of the quorum's log, durable on a majority before it is
answered. Reads are answered from what this server has applied. Answers and watch events of a connection come
in the order of zxid. Connections outlive a change of leader: what they wait for is sent to the next one.
Where none is known for a tick, this server drops its clients, so that they look for another one.

Source: ``org.apache.zookeeper.server.ZooKeeperServer``, ``quorum.QuorumZooKeeperServer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from barnabas.ports import ConnectionRefusal, HasSecrets, Listener, Ports
from barnabas.raft.embedded import EmbeddedReplica
from barnabas.raft.state_machine import CommittedBatch, SnapshotReader
from barnabas.types import Buffer
from barnabas.zookeeper.operations import Perms, Request
from barnabas.zookeeper.server import words
from barnabas.zookeeper.server.client_connection import NO_PASSWORD, JuteConnection
from barnabas.zookeeper.server.jute import JuteError
from barnabas.zookeeper.server.leader_link import FollowerLink
from barnabas.zookeeper.server.log_entries import Kind, Proposal, ProposalOrigin, decode_entry
from barnabas.zookeeper.server.proposals import Proposals
from barnabas.zookeeper.server.reads import read
from barnabas.zookeeper.server.replicated_state import REPLAYED, ReplicatedState
from barnabas.zookeeper.server.requests import SetWatches
from barnabas.zookeeper.server.server_settings import ServerSettings
from barnabas.zookeeper.server.session_clock import SessionDeadlines
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.watch_table import WatchTable
from barnabas.zookeeper.znode_acls import allows

CLUSTER_ID = "zookeeper-ensemble"
HELLO_MS_MAX = 10_000.0
"""How long a connection may take for its first frame."""
FOLLOWER_LINKS_MAX = 64


class ZnodeServer:
    """Call `open`, then everything is callbacks, until `begin_shutdown`."""

    def __init__(self, ports: Ports, settings: ServerSettings) -> None:
        self.ports = ports
        self.settings = settings
        self.state = ReplicatedState()
        self.stats = words.ServerStats()
        self._run = ports.rng("zookeeper/run").getrandbits(62) | 1
        self._proposals = Proposals(ports, settings.link_endpoints)
        self._watches: WatchTable[JuteConnection] = WatchTable()
        self._deadlines = SessionDeadlines()
        self._clients: dict[int, JuteConnection] = {}
        self._by_session: dict[int, dict[JuteConnection, None]] = {}
        self.paused: dict[JuteConnection, None] = {}
        """Connections that are not read from."""
        self._followers: dict[FollowerLink, None] = {}
        self._connections_made = 0
        self._sessions_made = ports.clock.wall_ms() << 16
        self._replica: EmbeddedReplica | None = None
        self._listeners: list[Listener] = []
        self._is_closed = False

    def open(self) -> None:
        """Read what is on the disk, take part in the quorum, and listen. Raises ``DirectoryError``,
        ``OSError``, and the errors of damaged files."""
        settings, network = self.settings, self.ports.network
        self._replica = EmbeddedReplica.open(
            self.ports,
            settings.data_dir,
            cluster_id=CLUSTER_ID,
            node_id=settings.server_id,
            peers=settings.quorum_endpoints,
            state_machine=self,
            listen=settings.has_ensemble,
            **settings.raft,
        )
        self._proposals.attach(self._replica.replica)
        link = settings.link_endpoints.get(settings.server_id)
        if link is not None:
            links = AddressGate(0, FOLLOWER_LINKS_MAX)
            self._listeners.append(network.listen(link, self._accept_follower, links))
        gate = AddressGate(settings.connections_per_address_max, network.capacity)
        self._listeners.append(network.listen(settings.client_endpoint, self._accept, gate))
        self._replica.start()
        self._tick_later()

    def begin_shutdown(self, on_done: Callable[[], None]) -> None:
        """Give up leadership, close, then call `on_done`."""
        self._is_closed = True
        for listener in self._listeners:
            listener.close()
        self._drop_clients()
        for follower in list(self._followers):
            follower.abort()
        self._proposals.close()
        assert self._replica is not None, "open first"
        self._replica.shutdown(on_done)

    # -- clients ---------------------------------------------------------------------------------

    @property
    def zxid(self) -> int:
        return self.state.zxid

    @property
    def frame_bytes_max(self) -> int:
        return self.settings.frame_bytes_max

    @property
    def is_congested(self) -> bool:
        return self._proposals.is_congested

    def granted_ms(self, timeout_ms: int) -> int:
        low, high = self.settings.session_timeout_ms
        return min(max(timeout_ms, low), high)

    def _accept(self) -> JuteConnection:
        self._connections_made += 1
        connection = JuteConnection(self, self._connections_made)
        self._clients[connection.number] = connection
        return connection

    def forget(self, connection: JuteConnection) -> None:
        self._clients.pop(connection.number, None)
        self.paused.pop(connection, None)
        self._watches.forget(connection)
        others = self._by_session.get(connection.session)
        if others is not None and others.pop(connection, 0) is None and not others:
            del self._by_session[connection.session]
        self.stats.received += connection.received
        self.stats.sent += connection.sent

    def propose_connect(
        self, connection: JuteConnection, session: int, password: bytes, timeout_ms: int
    ) -> None:
        origin = ProposalOrigin(self._run, connection.number)
        if session:
            proposal = Proposal(Kind.ATTACH, session, origin, 1, 0, password)
        else:
            self._sessions_made += 1
            session = self.settings.server_id << 56 | self._sessions_made & (1 << 56) - 1
            secrets = self.ports.secrets if isinstance(self.ports, HasSecrets) else None
            password = NO_PASSWORD if secrets is None else secrets.token_bytes(len(NO_PASSWORD))
            proposal = Proposal(Kind.OPEN, session, origin, 1, timeout_ms, password)
        connection.session, connection.password = session, password
        self._by_session.setdefault(session, {})[connection] = None
        self._proposals.propose(proposal)

    def propose(self, connection: JuteConnection, kind: Kind, op: int, body: bytes) -> None:
        origin = ProposalOrigin(self._run, connection.number)
        self._proposals.propose(
            Proposal(
                kind,
                connection.session,
                origin,
                connection.proposed_count,
                op,
                body if kind is Kind.CHANGE else b"",
                connection.identities,
            )
        )

    def read(self, connection: JuteConnection, request: Request[Any]) -> Any:
        return read(
            self.state.tree,
            self._watches,
            connection,
            connection.session,
            connection.identities,
            request,
        )

    def resume_watches(self, connection: JuteConnection, request: SetWatches) -> list[WatchEvent]:
        return list(
            self._watches.resume(connection, request.watched, self.state.tree, request.since_zxid)
        )

    def _drop_clients(self) -> None:
        for connection in list(self._clients.values()):
            connection.abort()
        self._proposals.forget_all()

    # -- other servers ---------------------------------------------------------------------------

    def _accept_follower(self) -> FollowerLink:
        follower = FollowerLink(self)
        self._followers[follower] = None
        return follower

    def forget_follower(self, follower: FollowerLink) -> None:
        self._followers.pop(follower, None)

    def take_proposal(self, proposal: bytes) -> bool:
        return self._proposals.append(proposal)

    def take_touches(self, sessions: Iterable[int]) -> None:
        now_ms = self.ports.clock.now_ms()
        for session in sessions:
            self._deadlines.touch(session, self.state.sessions.get(session), now_ms)

    # -- the state machine -----------------------------------------------------------------------

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            for value in batch.values:
                self._apply(value)
        if self.paused:
            for connection in list(self.paused):
                connection.regulate()

    def _apply(self, value: Buffer) -> None:
        try:
            entry = decode_entry(value)
        except JuteError as error:  # it is committed: on every server alike
            self.ports.log("error", "zookeeper.entry_skipped", reason=str(error))
            return
        proposal = entry.proposal
        result, events, acls = self.state.apply(entry)
        for event, acl in zip(events, acls, strict=True):
            for watcher in self._watches.fire(event):
                if allows(acl, Perms.READ, watcher.identities):
                    watcher.tell(event)
        if result is REPLAYED:
            return
        connection = None
        if proposal.origin.run == self._run:
            self._proposals.on_applied(proposal.origin.connection, proposal.number)
            connection = self._clients.get(proposal.origin.connection)
        if proposal.kind in (Kind.OPEN, Kind.ATTACH, Kind.END) and result is None:
            self._on_session_changed(proposal, connection)
        if connection is not None:
            connection.on_result(result)

    def _on_session_changed(self, proposal: Proposal, owner: JuteConnection | None) -> None:
        """Opened, moved to `owner` or to another server's connection, or ended."""
        number = proposal.session
        session = self.state.sessions.get(number)
        if self._proposals.leads:
            self._deadlines.touch(number, session, self.ports.clock.now_ms())
        if owner is not None and session is not None:
            owner.timeout_ms = session.timeout_ms
        for connection in list(self._by_session.get(number, ())):
            if connection is not owner and connection.timeout_ms:
                connection.hang_up()

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        """This server was far behind, or starts. Its clients' watches missed what changed."""
        self.state.restore(snapshot.values())
        self._drop_clients()

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        return self.state.snapshot()

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        own_id = self.settings.server_id
        self.ports.log("info", "zookeeper.leader", server=own_id, leader=leader_id, epoch=epoch)
        if leader_id == own_id:
            self._deadlines.begin(self.state.sessions, self.ports.clock.now_ms())
        self._proposals.on_leader(leader_id, epoch, own_id)

    # -- time ------------------------------------------------------------------------------------

    @property
    def _interval_ms(self) -> float:
        return self.settings.tick_ms / 2

    def _tick_later(self) -> None:
        due_ms = self.ports.clock.now_ms() + self._interval_ms
        self.ports.wakeups.call_at(due_ms, self._tick)

    def _tick(self) -> None:
        if self._is_closed:
            return
        self._tick_later()
        now_ms = self.ports.clock.now_ms()
        since_ms = self._proposals.leaderless_since_ms
        if since_ms is not None and now_ms - since_ms > self.settings.tick_ms:
            self._drop_clients()
        self._look_at_connections(now_ms)
        heard = [
            one.session
            for one in self._clients.values()
            if one.timeout_ms and now_ms - one.heard_ms <= self._interval_ms
        ]
        if self._proposals.leads:
            self.take_touches(heard)
            for session in self._deadlines.expired(now_ms, self._interval_ms):
                self.ports.log("info", "zookeeper.session_expired", session=f"{session:#x}")
                self._proposals.append(Proposal(Kind.END, session).encode())
        elif heard:
            self._proposals.link.touch(heard)

    def _look_at_connections(self, now_ms: float) -> None:
        """Close those that are silent for too long; read again where that was stopped."""
        for connection in list(self._clients.values()):
            if now_ms - connection.heard_ms > (connection.timeout_ms or HELLO_MS_MAX):
                connection.abort()
            else:
                connection.regulate()
        for follower in list(self._followers):
            if not follower.is_known and now_ms - follower.begun_ms > HELLO_MS_MAX:
                follower.abort()

    # -- what operators ask ----------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Changes of this server's clients that are not applied yet."""
        return len(self._proposals)

    @property
    def mode(self) -> str:
        if self._proposals.leader_id < 0:
            return ""
        if not self.settings.has_ensemble:
            return "standalone"
        return "leader" if self._proposals.leads else "follower"

    def word(self, word: str) -> str:
        return words.answer(word, self.settings.whitelist, self._facts)

    def _facts(self) -> words.Facts:
        clients = list(self._clients.values())
        nodes = [node for _, node in self.state.tree.nodes()]
        return words.Facts(
            self.stats,
            self.mode,
            self.zxid,
            len(nodes),
            sum(node.owner != 0 for node in nodes),
            sum(len(node.data) for node in nodes),
            len(self._watches),
            sum(one.outstanding for one in clients),
            tuple(
                f" /{one.peer}[1](queued={one.outstanding},recved={one.received},sent={one.sent})"
                for one in clients
            ),
            self.settings.describe(),
            len(self._followers),
        )


class AddressGate:
    """``ports.ConnectionGate`` with a limit for each client address; 0 is none."""

    def __init__(self, per_address: int, capacity: int) -> None:
        self._per_address = per_address
        self._capacity = capacity
        self._by_address: dict[str, int] = {}

    def wait_ms(self) -> float:
        return 0.0

    def on_accepted(self, host: str) -> ConnectionRefusal | None:
        count = self._by_address.get(host, 0)
        if self._per_address and count >= self._per_address:
            return ConnectionRefusal("maxClientCnxns", 0.0)
        if sum(self._by_address.values()) >= self._capacity:
            return ConnectionRefusal("max.connections", 0.0)
        self._by_address[host] = count + 1
        return None

    def on_ended(self, host: str) -> None:
        left = self._by_address.get(host, 1) - 1
        if left:
            self._by_address[host] = left
        else:
            self._by_address.pop(host, None)
