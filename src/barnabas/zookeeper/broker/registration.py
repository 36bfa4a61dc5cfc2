"""The broker's own life where ZooKeeper coordinates the cluster: an ephemeral znode, and its end.

STARTING → (znode made) FENCED → (the controller's UpdateMetadata names this registration) RUNNING →
LEAVING → STOPPED. The broker epoch is the znode's creation zxid. When the session expires the broker
registers again in the next one, with a new epoch; until the controller knows of that it is FENCED.

The znode of a predecessor that died lives until its session ends. Where it names this process's own
endpoints, which this process has bound, its owner is certainly gone, and the znode is removed; else it
is waited for.

Source: Kafka's ``KafkaServer`` and ``KafkaZkClient.registerBroker`` (KIP-380, KIP-279).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from barnabas.broker.controller_client.broker_lifecycle import BrokerIdentity, LifecyclePhase
from barnabas.broker.controller_client.controller_channel import ControllerChannel
from barnabas.config.listeners import PROTOCOLS
from barnabas.ports import Ports, Wakeup
from barnabas.types import Uuid, uuid_text
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.kafka39.controlled_shutdown_request import ControlledShutdownRequest
from barnabas.wire.messages.kafka39.controlled_shutdown_response import ControlledShutdownResponse
from barnabas.zookeeper.errors import NodeExists, NoNode, ZooKeeperError
from barnabas.zookeeper.layout.broker_znodes import BrokerListener, BrokerZnode, broker_path
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.request_znodes import LogDirEventZnode
from barnabas.zookeeper.operations import Create, Created, Delete, GetData, NodeData
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper

PURPOSE = "registration"
ZNODE_RETRY_MS = 250.0
LEAVE_MS_MAX = 2_500.0
"""A controlled shutdown takes no longer before the logs are closed regardless, as under a quorum."""
LEAVING_POLL_MS = 100.0
CONTROLLER_GONE_MS = 700.0


class OwnZnode(Enum):
    """The state of the ephemeral znode that registers this broker."""

    ABSENT = "absent"
    """There is none in this session, as far as is known here."""
    CREATING = "creating"
    REGISTERED = "registered"


PHASE_MOVES: Mapping[LifecyclePhase, frozenset[LifecyclePhase]] = {
    LifecyclePhase.STARTING: frozenset({LifecyclePhase.FENCED, LifecyclePhase.LEAVING}),
    LifecyclePhase.FENCED: frozenset({LifecyclePhase.RUNNING, LifecyclePhase.LEAVING}),
    LifecyclePhase.RUNNING: frozenset({LifecyclePhase.FENCED, LifecyclePhase.LEAVING}),
    LifecyclePhase.LEAVING: frozenset({LifecyclePhase.STOPPED}),
    LifecyclePhase.STOPPED: frozenset(),
}


class ZookeeperRegistration:
    """One incarnation of one broker: what `BrokerLifecycle` is under a quorum."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        controller: ControllerChannel,
        identity: BrokerIdentity,
        *,
        is_registered: Callable[[int], bool],
        on_registered: Callable[[], None],
        registration_timeout_ms: float,
    ) -> None:
        """`is_registered` says whether the image shows this broker alive under an epoch; `on_registered` is
        called after each registration."""
        self.ports = ports
        self.identity = identity
        self.phase = LifecyclePhase.STARTING
        self.znode = OwnZnode.ABSENT
        self.broker_epoch = -1
        """The creation zxid of the znode; -1 unless it is REGISTERED."""
        self.cordoned: tuple[Uuid, ...] = ()
        self._sessions = sessions
        self._controller = controller
        self._is_registered, self._on_registered = is_registered, on_registered
        self._deadline_ms = ports.clock.now_ms() + registration_timeout_ms
        self._retry: Wakeup | None = None
        self._on_left: Callable[[], None] | None = None
        """Set in phase LEAVING only."""
        self._leave_deadline_ms = 0.0
        self._asking = False
        self._path = broker_path(identity.node_id)
        self._session_id = 0

    def validate(self) -> None:
        """Raises AssertionError where phase, znode and epoch contradict each other."""
        is_registered = self.znode is OwnZnode.REGISTERED
        assert is_registered == (self.broker_epoch >= 0), f"{self!r}: {self.znode.value}"
        if self.phase is LifecyclePhase.STARTING:
            assert not is_registered, repr(self)
        assert (self._on_left is not None) == (self.phase is LifecyclePhase.LEAVING), repr(self)
        is_over = self.phase in (LifecyclePhase.LEAVING, LifecyclePhase.STOPPED)
        assert is_over or not self._asking, f"{self!r} asks to leave"

    def _become(self, phase: LifecyclePhase) -> None:
        assert phase in PHASE_MOVES[self.phase], f"{self!r} may not become {phase.value}"
        self.phase = phase

    @property
    def is_fenced(self) -> bool:
        return self.phase in (LifecyclePhase.STARTING, LifecyclePhase.FENCED)

    # -- registration ------------------------------------------------------------------------------

    def start(self) -> None:
        """Register, as soon as the ensemble serves."""
        self._sessions.follow(self)
        if self._sessions.is_connected:
            self._register()

    def on_connected(self, is_new: bool) -> None:
        if self.broker_epoch < 0:
            self._register()

    def on_expired(self) -> None:
        """The znode is gone with the session."""
        self.broker_epoch, self.znode = -1, OwnZnode.ABSENT
        if self.phase is LifecyclePhase.RUNNING:
            self._become(LifecyclePhase.FENCED)
            self.ports.log("warning", "broker.registration_lost", error="SESSION_EXPIRED")

    def on_watch(self, event: WatchEvent) -> None:
        return

    def _znode(self) -> BrokerZnode:
        me = self.identity
        listeners = tuple(
            BrokerListener(name, at.host, at.port, PROTOCOLS[protocol])
            for name, (at, protocol) in me.listeners.items()
        )
        return BrokerZnode(me.node_id, listeners, self.ports.clock.wall_ms(), me.rack)

    def _register(self) -> None:
        is_over = self.phase in (LifecyclePhase.LEAVING, LifecyclePhase.STOPPED)
        if self.znode is not OwnZnode.ABSENT or is_over:
            return
        self.znode = OwnZnode.CREATING
        self._session_id = self._sessions.id
        data = self._znode().encode()
        self._sessions.submit(Create(self._path, data, ephemeral=True), self._on_created)

    def _on_created(self, result: Created | ZooKeeperError) -> None:
        if isinstance(result, Created):
            self._registered(result.stat.czxid)
        elif isinstance(result, NodeExists):
            self._sessions.submit(GetData(self._path), self._on_present)
        else:
            self._again(str(result))

    def _on_present(self, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, ZooKeeperError):
            self._again("" if isinstance(result, NoNode) else str(result))
        elif result.stat.ephemeral_owner == self._sessions.id:
            self._registered(result.stat.czxid)  # the answer to its creation was lost
        elif self._is_mine(result.data):
            self.ports.log("info", "broker.predecessor_removed", path=self._path)
            self._sessions.submit(Delete(self._path), lambda _: self._again(""))
        else:
            self._again("another session holds it", result.data)

    def _is_mine(self, data: bytes) -> bool:
        try:
            other = BrokerZnode.decode(self._path, data)
        except MalformedZnode:
            return False
        return set(other.endpoints.values()) == set(self._znode().endpoints.values())

    def _registered(self, czxid: int) -> None:
        self.znode, self.broker_epoch = OwnZnode.REGISTERED, czxid
        if self.phase is LifecyclePhase.STARTING:
            self._become(LifecyclePhase.FENCED)
        self.ports.log("info", "broker.registered", epoch=czxid, path=self._path)
        self._on_registered()

    def _again(self, why: str, holder: bytes = b"") -> None:
        """Try again soon; a first registration that has taken too long ends the process."""
        if self.znode is OwnZnode.CREATING:
            self.znode = OwnZnode.ABSENT
        if self.phase is LifecyclePhase.STOPPED:
            return
        if why:
            self.ports.log("warning", "broker.registration_refused", path=self._path, error=why)
        if self.phase is LifecyclePhase.STARTING and self.ports.clock.now_ms() >= self._deadline_ms:
            held = f", held by {holder.decode('utf-8', 'replace')}" if holder else ""
            self.ports.halt(
                f"broker {self.identity.node_id} did not register at {self._path} within"
                f" initial.broker.registration.timeout.ms: {why}{held}"
            )
        self._after(ZNODE_RETRY_MS if why else 0.0, self._retry_registration)

    def _retry_registration(self) -> None:
        if self.broker_epoch < 0 and self._sessions.is_connected:
            self._register()

    def _after(self, delay_ms: float, action: Callable[[], None]) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self.ports.wakeups.call_at(self.ports.clock.now_ms() + delay_ms, action)

    # -- what the broker says ----------------------------------------------------------------------

    def on_metadata(self, concerns_me: bool) -> None:
        """The image moved."""
        if self.phase is LifecyclePhase.FENCED and self._is_registered(self.broker_epoch):
            self._become(LifecyclePhase.RUNNING)
            self.ports.log("info", "broker.unfenced", epoch=self.broker_epoch)
        elif self.phase is LifecyclePhase.RUNNING and not self._is_registered(self.broker_epoch):
            self._become(LifecyclePhase.FENCED)
            self.ports.log("warning", "broker.fenced", epoch=self.broker_epoch)

    def on_controller_change(self) -> None:
        return

    def register_again(self) -> None:
        return

    def set_cordoned(self, directories: Sequence[Uuid]) -> None:
        """Kept here alone: no znode of Kafka 3.9 says which directories take no new replicas."""
        self.cordoned = tuple(sorted(directories))

    def on_directory_offline(self, directory: Uuid) -> None:
        """The controller asks then which replicas are offline (``LeaderAndIsr``)."""
        self._propagate_log_dir_event()

    def _propagate_log_dir_event(self) -> None:
        event = LogDirEventZnode(self.identity.node_id)

        def on_done(result: Created | ZooKeeperError) -> None:
            if self.phase is LifecyclePhase.STOPPED:
                return
            if isinstance(result, ZooKeeperError):
                # A new controller asks every broker anyway, and so does one that sees it register again.
                self.ports.log("warning", "broker.log_dir_event_failed", error=result)
                at_ms = self.ports.clock.now_ms() + ZNODE_RETRY_MS
                self.ports.wakeups.call_at(at_ms, self._propagate_log_dir_event)

        create = Create(event.path, event.encode(), sequential=True)
        self._sessions.submit(create, on_done)

    # -- the end -----------------------------------------------------------------------------------

    def begin_shutdown(self, on_left: Callable[[], None], *, controlled: bool) -> None:
        """Hand the leaderships over, remove the registration, then call `on_left`."""
        was = self.phase
        self._become(LifecyclePhase.LEAVING)
        self._on_left = on_left
        self._leave_deadline_ms = self.ports.clock.now_ms() + LEAVE_MS_MAX
        if not controlled or self.broker_epoch < 0 or was is LifecyclePhase.STARTING:
            self._after(0.0, lambda: self._leave("there is nothing to hand over"))
            return
        self._ask_to_leave()

    def _ask_to_leave(self) -> None:
        if self.phase is not LifecyclePhase.LEAVING:
            return
        now_ms = self.ports.clock.now_ms()
        gone_since = self._controller.unreachable_since_ms
        if now_ms >= self._leave_deadline_ms:
            self._leave("it took too long")
        elif gone_since is not None and now_ms - gone_since >= CONTROLLER_GONE_MS:
            self._leave("no controller answers")
        else:
            self._after(LEAVING_POLL_MS, self._ask_to_leave)
            if not self._asking:
                self._asking = True
                self._controller.send(
                    ControlledShutdownRequest(
                        broker_id=self.identity.node_id, broker_epoch=self.broker_epoch
                    ),
                    self._on_shutdown_answer,
                    purpose=PURPOSE,
                    timeout_ms=max(self._leave_deadline_ms - now_ms, 1.0),
                )

    def _on_shutdown_answer(self, response: ControlledShutdownResponse | KafkaError) -> None:
        self._asking = False
        if isinstance(response, KafkaError) or response.error_code:
            error = response.code if isinstance(response, KafkaError) else response.error_code
            if code_of(error) is ErrorCode.STALE_BROKER_EPOCH:
                self._leave("the controller does not know this registration any more")
        elif not response.remaining_partitions:
            self._leave("the controller has taken its leaderships")

    def _leave(self, why: str) -> None:
        if self.phase is not LifecyclePhase.LEAVING:
            return
        self._become(LifecyclePhase.STOPPED)
        if self._retry is not None:
            self._retry.cancel()
        self.ports.log("info", "broker.left", why=why)
        on_left, self._on_left = self._on_left, None
        if on_left is not None:
            on_left()

    def describe(self) -> dict[str, object]:
        return {
            "phase": self.phase.value,
            "broker_epoch": self.broker_epoch,
            "incarnation": uuid_text(self.identity.incarnation),
            "session": f"{self._sessions.id:#x}",
        }

    def __repr__(self) -> str:
        return f"ZookeeperRegistration({self.phase.value}, broker epoch {self.broker_epoch})"
