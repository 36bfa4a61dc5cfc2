"""Three servers in the simulator, with clients that speak ZooKeeper's protocol: killed, cut off and paused.

Small snapshots, so that servers start from them and fetch them. Each seed is another story.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from barnabas.ports import Connection
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import World
from barnabas.types import Endpoint
from barnabas.zookeeper.server.jute import JuteReader, JuteWriter
from barnabas.zookeeper.server.requests import Op
from barnabas.zookeeper.server.server_settings import ServerSettings
from barnabas.zookeeper.server.znode_server import ZnodeServer

SERVERS = (1, 2, 3)
CLIENTS = 4
STORY_MS = 20_000.0
SILENT_MS = 3_000.0
PACE_MS = 200.0
PING_XID, EVENT_XID = -2, -1


def settings(number: int) -> ServerSettings:
    return ServerSettings(
        data_dir="/data",
        client_endpoint=Endpoint(f"z{number}", 2181),
        server_id=number,
        tick_ms=1_000,
        session_timeout_ms=(4_000, 20_000),
        quorum_endpoints={n: Endpoint(f"z{n}", 2888) for n in SERVERS},
        link_endpoints={n: Endpoint(f"z{n}", 3888) for n in SERVERS},
        raft={
            "bytes_between_snapshots": 20_000,
            "segment_bytes": 10_000,
            "retention_bytes": 60_000,
        },
    )


class SimClient:
    """A session that is opened again when it is lost, at another server when one is silent."""

    session_timeout_ms = 8_000

    def __init__(self, process: SimProcess, number: int) -> None:
        self.process = process
        self.number = number
        self.session, self.password = 0, bytes(16)
        self.last_zxid = 0
        self.sessions_lost = 0
        self.events = 0
        self.is_done = False
        self.link: ClientLink | None = None
        self._server = number
        self._connect()

    def _connect(self) -> None:
        self._server = self._server % len(SERVERS) + 1
        self.link = ClientLink(self)
        self.process.network.connect(Endpoint(f"z{self._server}", 2181), self.link)

    def on_lost(self, link: ClientLink) -> None:
        if link is self.link:
            self.link = None
            at = self.process.clock.now_ms() + 50
            self.process.wakeups.call_at(at, self._connect)

    def on_session(self, timeout_ms: int, session: int, password: bytes) -> None:
        assert self.link is not None
        if timeout_ms == 0:
            self.sessions_lost += 1
            self.session, self.password, self.last_zxid = 0, bytes(16), 0
            self.link.abort()
            return
        self.session, self.password = session, password
        self.work()

    def work(self) -> None:
        """The session is connected, for the first time or again; no request is under way."""
        raise NotImplementedError


class ClientLink:
    """One connection; a server that is silent for long is given up."""

    def __init__(self, client: SimClient) -> None:
        self._client = client
        self._connection: Connection | None = None
        self._space = memoryview(bytearray(4096))
        self._data = bytearray()
        self._xid = 0
        self._asked: list[tuple[int, Callable[[int, int, bytes], None]]] = []
        self._is_open = self._is_over = False
        self._heard_ms = client.process.clock.now_ms()
        self._watch()

    def _watch(self) -> None:
        now_ms = self._client.process.clock.now_ms()
        if self._is_over:
            return
        if now_ms - self._heard_ms > SILENT_MS:
            self.abort()
            return
        if self._is_open:
            self._send(JuteWriter().number(PING_XID).number(Op.PING).bytes())
        self._client.process.wakeups.call_at(now_ms + 1_000, self._watch)

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        client = self._client
        request = JuteWriter().number(0).long(client.last_zxid)
        request.number(client.session_timeout_ms).long(client.session)
        self._send(request.buffer(client.password).bool(False).bytes())

    def get_buffer(self) -> memoryview:
        return self._space

    def on_closed(self, error: OSError | None) -> None:
        self._over()

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()
        self._over()

    def _over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._client.on_lost(self)

    def _send(self, frame: bytes) -> None:
        if self._connection is not None and not self._is_over:
            self._connection.send([len(frame).to_bytes(4, "big"), frame])

    @property
    def is_idle(self) -> bool:
        """Whether it has a session and waits for no answer."""
        return self._is_open and not self._asked

    def ask(self, op: int, body: bytes, on_answer: Callable[[int, int, bytes], None]) -> None:
        self._xid += 1
        self._asked.append((self._xid, on_answer))
        self._send(JuteWriter().number(self._xid).number(op).raw(body).bytes())

    def buffer_updated(self, size: int) -> None:
        self._heard_ms = self._client.process.clock.now_ms()
        self._data += self._space[:size]
        while len(self._data) >= 4 and not self._is_over:
            end = 4 + int.from_bytes(self._data[:4], "big")
            if len(self._data) < end:
                return
            frame = bytes(self._data[4:end])
            del self._data[:end]
            self._on_frame(JuteReader(frame))

    def _on_frame(self, reader: JuteReader) -> None:
        client = self._client
        if not self._is_open:
            self._is_open = True
            reader.number()
            client.on_session(reader.number(), reader.long(), reader.buffer())
            return
        xid, zxid, error = reader.number(), reader.long(), reader.number()
        if xid == EVENT_XID:
            client.events += 1
            return
        assert zxid >= client.last_zxid, "what a session saw is unseen"
        client.last_zxid = zxid
        if xid == PING_XID:
            return
        asked, on_answer = self._asked.pop(0)
        assert asked == xid, "answers come in the order of the requests"
        on_answer(error, zxid, reader.rest())


class Story:
    """Machines, servers and clients of one seed."""

    def __init__(self, seed: int, client: Callable[[SimProcess, int], SimClient]) -> None:
        self.world = World(seed)
        self.network = SimNetwork(self.world)
        self.rng = Random(seed)
        self.machines = {n: self._machine(f"z{n}") for n in SERVERS}
        self.servers: dict[int, ZnodeServer] = {}
        self.processes: dict[int, SimProcess] = {}
        for number in SERVERS:
            self.start(number)
        self.clients = [client(self._machine(f"c{n}").start_process(), n) for n in range(CLIENTS)]

    def _machine(self, host: str) -> SimMachine:
        return SimMachine(self.world, self.network, host, SimDisk(self.world.rng(host)))

    def start(self, number: int) -> None:
        process = self.processes[number] = self.machines[number].start_process()
        server = self.servers[number] = ZnodeServer(process, settings(number))
        process.run(server.open)

    def play(self, story_ms: float = STORY_MS) -> None:
        """Faults, one after the other; never more than one server is out."""
        until = self.world.now_ms + story_ms
        while self.world.now_ms < until:
            self.run(self.rng.uniform(500, 3_000))
            victim = self.rng.choice((self.leader, *SERVERS))
            if self.rng.random() < 0.7:  # while a change is on its way
                self.world.run(self.world.now_ms + 1_000, self.is_proposing)
                self.run(self.rng.uniform(0.0, 6.0))
            fault = self.rng.choice((self._kill, self._isolate, self._pause, self._break_links))
            fault(victim)
        self.network.heal()
        self.run(5_000)

    @property
    def leader(self) -> int:
        return next((n for n, one in self.servers.items() if one.mode == "leader"), 1)

    def is_proposing(self) -> bool:
        return any(one.mode == "follower" and one.pending for one in self.servers.values())

    def run(self, ms: float) -> None:
        self.world.run(self.world.now_ms + ms)

    def _kill(self, victim: int) -> None:
        self.processes[victim].kill(power_loss=self.rng.random() < 0.5)
        self.run(self.rng.uniform(100, 6_000))
        self.start(victim)

    def _break_links(self, victim: int) -> None:
        """Those over which changes come to `victim`, several times: what waits is sent again."""
        for _ in range(10):
            self.world.run(self.world.now_ms + 1_000, self.is_proposing)
            self.run(self.rng.uniform(0.0, 3.0))
            for link in list(self.servers[self.leader]._followers):
                link.abort()
            self.run(60)

    def _isolate(self, victim: int) -> None:
        for other in SERVERS:
            if other != victim:
                self.network.cut(f"z{victim}", f"z{other}")
                self.network.cut(f"z{other}", f"z{victim}")
        self.run(self.rng.uniform(100, 8_000))
        self.network.heal()

    def _pause(self, victim: int) -> None:
        ms = self.rng.uniform(100, 9_000)
        self.processes[victim].pause(ms)
        self.run(ms)

    def settled(self) -> bool:
        return len({server.zxid for server in self.servers.values()}) == 1
