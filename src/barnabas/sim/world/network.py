"""A simulated network of streams: delay, loss of connections, netsplits; order kept per stream.

As TCP does it: bytes of one stream arrive in order or not at all; streams are independent of
each other. A cut link delays what is under way and ends the connection only after
``CUT_TIMEOUT_MS``. A killed process closes its streams (the peer sees a reset, a new
connection is refused); a machine that lost power does neither until it is back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.ports import Connection, ConnectionGate, Listener, Receiver, Rng
from barnabas.sim.world.world import World
from barnabas.types import Buffer, Endpoint

if TYPE_CHECKING:
    from barnabas.sim.world.process import SimProcess

CUT_TIMEOUT_MS = 15_000.0
CONNECT_TIMEOUT_MS = 5_000.0


class Conditions:
    """How the network behaves now; the fault schedule changes it."""

    def __init__(self) -> None:
        self.latency_ms_min = 0.05
        self.latency_ms_max = 0.6
        self.slow_chance = 0.0
        """Chance that one delivery takes up to `slow_ms_max`."""
        self.slow_ms_max = 50.0
        self.reset_chance = 0.0
        """Chance per send that the connection dies instead."""
        self.silence_chance = 0.0
        """Chance per send that the connection falls silent: nothing arrives, and neither end learns of it."""
        self.double_chance = 0.0
        """Chance that a request to connect arrives twice."""
        self.split_chance = 0.05
        """Chance that what one send queued arrives in two pieces."""

    def heal(self) -> None:
        """Heal: the conditions are those of the beginning."""
        self.__init__()  # type: ignore[misc]


class SimNetwork:
    """All machines' network. Machines are named by host; links are directed pairs of hosts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.conditions = Conditions()
        self._rng: Rng = world.rng("network")
        self.random = self._rng.random
        self._listeners: dict[Endpoint, SimListener] = {}
        self.delivered = 0
        """Messages that arrived anywhere."""
        self.links_cut: set[tuple[str, str]] = set()
        """(source, target), each one direction."""
        self._streams: dict[int, Stream] = {}
        self._stream_count = 0
        self._next_port = 20_000

    # -- faults ----------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Nothing sent from `source` reaches `target` until healed (one direction)."""
        self.links_cut.add((source, target))

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Repair one direction, or everything."""
        if source is None or target is None:
            self.links_cut.clear()
        else:
            self.links_cut.discard((source, target))
        for stream in list(self._streams.values()):
            stream.flow()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self.links_cut

    def delay_ms(self) -> float:
        """How long the next delivery takes."""
        now, random = self.conditions, self.random
        if now.slow_chance and random() < now.slow_chance:
            return now.latency_ms_max + (now.slow_ms_max - now.latency_ms_max) * random()
        return now.latency_ms_min + (now.latency_ms_max - now.latency_ms_min) * random()

    def process_died(self, process: SimProcess, silently: bool) -> None:
        """Close what `process` had open; `silently` where its machine lost power."""
        for endpoint, listener in list(self._listeners.items()):
            if listener.process is process:
                del self._listeners[endpoint]
        for stream in list(self._streams.values()):
            stream.process_died(process, silently)

    # -- what the ports call ---------------------------------------------------------------------

    def listen(
        self,
        process: SimProcess,
        endpoint: Endpoint,
        accept: Callable[[], Receiver],
        gate: ConnectionGate | None = None,
    ) -> SimListener:
        if endpoint.port == 0:
            self._next_port += 1
            endpoint = Endpoint(endpoint.host, self._next_port)
        if endpoint in self._listeners:
            raise OSError(98, f"address {endpoint} is in use")
        listener = SimListener(self, process, endpoint, accept, gate)
        self._listeners[endpoint] = listener
        return listener

    def unlisten(self, listener: SimListener) -> None:
        if self._listeners.get(listener.endpoint) is listener:
            del self._listeners[listener.endpoint]

    def connect(self, process: SimProcess, endpoint: Endpoint, receiver: Receiver) -> None:
        self._stream_count += 1
        stream = Stream(self, self._stream_count, process, receiver, endpoint)
        self._streams[stream.number] = stream
        self.world.after(self.delay_ms(), stream.arrive)

    def find_listener(self, endpoint: Endpoint) -> SimListener | None:
        return self._listeners.get(endpoint)

    def busy_streams(self, sources: Collection[str], targets: Collection[str]) -> list[Stream]:
        """The connections from `sources` to `targets` on which something is on its way."""
        return [
            stream
            for stream in self._streams.values()
            if stream.near.process.host in sources
            and stream.target.host in targets
            and stream.is_busy
        ]

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random() < probability

    def ghost_ms(self) -> float:
        """How long a doubled connection lives."""
        return self._rng.uniform(1.0, 3000.0)

    def piece(self, size: int) -> int:
        """The size of the first piece of a delivery of `size` bytes."""
        return self._rng.randrange(1, size)


class SimListener(Listener):
    def __init__(
        self,
        network: SimNetwork,
        process: SimProcess,
        endpoint: Endpoint,
        accept: Callable[[], Receiver],
        gate: ConnectionGate | None,
    ) -> None:
        self.network = network
        self.process = process
        self.accept = accept
        self.gate = gate
        self._endpoint = endpoint

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    def close(self) -> None:
        self.network.unlisten(self)


class Ghost(Receiver):
    """The client end of a doubled request's second connection: no client uses it, and it closes later."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network

    def on_connected(self, connection: Connection) -> None:
        self._network.world.after(self._network.ghost_ms(), connection.abort)

    def get_buffer(self) -> memoryview:
        return memoryview(bytearray(1024))

    def buffer_updated(self, size: int) -> None:
        pass

    def on_closed(self, error: OSError | None) -> None:
        pass


class Stream:
    """One connection with its two ends."""

    def __init__(
        self,
        network: SimNetwork,
        number: int,
        process: SimProcess,
        receiver: Receiver,
        target: Endpoint,
    ) -> None:
        self.network = network
        self.number = number
        self.target = target
        self.near = End(self, process, receiver, target)
        self.far: End | None = None
        self.started_ms = network.world.now_ms
        self.cut_since_ms: float | None = None
        self.silent = False
        self.stalled_until_ms = 0.0
        """Until then nothing arrives, in either direction."""

    @property
    def is_busy(self) -> bool:
        """Something is on its way."""
        return self.near.unsent_bytes > 0 or (self.far is not None and self.far.unsent_bytes > 0)

    def arrive(self) -> None:
        """The request to connect reaches the target machine, or does not."""
        network, near = self.network, self.near
        if not near.process.alive:
            network.forget(self)
            return
        host = self.target.host
        waited = network.world.now_ms - self.started_ms
        blocked = network.is_cut(near.process.host, host) or network.is_cut(host, near.process.host)
        if blocked or near.process.machine_is_off(host):
            if waited > CONNECT_TIMEOUT_MS:
                near.closed(TimeoutError(110, f"connect to {self.target} timed out"))
                network.forget(self)
            else:
                network.world.after(200.0, self.arrive)
            return
        listener = network.find_listener(self.target)
        if listener is None:
            near.closed(ConnectionRefusedError(111, f"{self.target} refused the connection"))
            network.forget(self)
            return
        gate = listener.gate
        if gate is not None and not self._may_pass(gate):
            return
        receiver = listener.accept()
        peer = Endpoint(near.process.host, 40_000 + self.number % 20_000)
        self.far = far = End(self, listener.process, receiver, peer)
        far.open = True
        far.gate = gate
        far.other, near.other = near, far
        listener.process.run(lambda: receiver.on_connected(far))
        network.world.after(network.delay_ms(), self._established)
        if network.chance(network.conditions.double_chance) and not isinstance(
            near.receiver, Ghost
        ):
            network.world.totals["connections doubled"] += 1
            network.connect(near.process, self.target, Ghost(network))

    def _may_pass(self, gate: ConnectionGate) -> bool:
        world, near = self.network.world, self.near
        wait_ms = gate.wait_ms()
        if wait_ms > 0:
            world.after(wait_ms, self.arrive)
            return False
        refusal = gate.on_accepted(near.process.host)
        if refusal is None:
            return True
        error = ConnectionResetError(104, f"{self.target} closed the connection")
        world.after(refusal.wait_ms, lambda: near.closed(error))
        self.network.forget(self)
        return False

    def _established(self) -> None:
        near = self.near
        if near.finished or not near.process.alive:
            return
        near.open = True
        near.process.run(lambda: near.receiver.on_connected(near))

    def flow(self) -> None:
        """A link was healed: what waited is delivered."""
        self.cut_since_ms = None
        for end in (self.near, self.far):
            if end is not None:
                end.schedule()

    def break_off(self, error: OSError) -> None:
        """Both ends lose the connection."""
        for end in (self.near, self.far):
            if end is not None:
                end.closed(error)
        self.network.forget(self)

    def fall_silent(self) -> None:
        """Nothing gets through any more, in either direction; the ends notice in their own time."""
        if not self.silent:
            self.silent = True
            world = self.network.world
            world.totals["connections lost"] += 1
            error = TimeoutError(110, "nothing was heard for too long")
            world.after(CUT_TIMEOUT_MS, lambda: self.break_off(error))

    def process_died(self, process: SimProcess, silently: bool) -> None:
        for end in (self.near, self.far):
            if end is None or end.process is not process or end.finished:
                continue
            end.finished = True
            other = end.other
            if other is not None and not silently and not self.silent:
                other.hang_up(ConnectionResetError(104, "the peer process died"))
            elif other is not None:
                self._fall_silent(other)

    def _fall_silent(self, end: End) -> None:
        error = TimeoutError(110, "the peer fell silent")
        self.network.world.after(CUT_TIMEOUT_MS, lambda: end.closed(error))


class End(Connection):
    """One process's end of a stream: what it sent and the peer has not taken yet."""

    def __init__(
        self, stream: Stream, process: SimProcess, receiver: Receiver, peer: Endpoint
    ) -> None:
        self.stream = stream
        self.network = stream.network
        self.world = stream.network.world
        self.process = process
        self.receiver = receiver
        self.other: End | None = None
        """The peer's, once the request to connect has reached it."""
        self.gate: ConnectionGate | None = None
        """The gate that let the connection in, at its accepted end."""
        self.open = False
        self.finished = False
        self._peer = peer
        self._queue: deque[bytes] = deque()
        """Sent by this end, not yet delivered to the other."""
        self._queued_bytes = 0
        self._closing = False
        self._paused = False
        self._scheduled = False
        self._aborted = False
        self._held: deque[memoryview] = deque()
        """Arrived here, and the receiver paused before it took all of it."""

    @property
    def peer(self) -> Endpoint:
        return self._peer

    @property
    def unsent_bytes(self) -> int:
        return self._queued_bytes

    def send(self, parts: Sequence[Buffer]) -> None:
        if self.finished or self._closing:
            return
        network = self.network
        now = network.conditions
        if now.reset_chance and network.chance(now.reset_chance):
            self.world.totals["connections reset"] += 1
            self.world.after(
                0, lambda: self.stream.break_off(ConnectionResetError(104, "connection reset"))
            )
            return
        if now.silence_chance and network.chance(now.silence_chance):
            self.stream.fall_silent()
        data = b"".join(parts)
        if data:
            self._queue.append(data)
            self._queued_bytes += len(data)
            if not self._scheduled:
                self._scheduled = True
                self.world.after(network.delay_ms(), self._deliver)

    def close(self) -> None:
        if not self.finished and not self._closing:
            self._closing = True
            self.schedule()

    def abort(self) -> None:
        if self.finished:
            return
        self._queue.clear()
        self._queued_bytes = 0
        self._aborted = True
        self.close()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        if self._held:
            self.world.after(0, lambda: self.process.run(self._feed))
        if self.other is not None:
            self.other.schedule()

    def schedule(self) -> None:
        """Arrange the next delivery from this end to the other."""
        if self._scheduled or not (self._queue or self._closing):
            return
        self._scheduled = True
        self.world.after(self.network.delay_ms(), self._deliver)

    def hang_up(self, error: OSError) -> None:
        """The other process died: say so here after what it sent has arrived."""
        self.world.after(self.network.delay_ms(), lambda: self._hung_up(error))

    def _hung_up(self, error: OSError) -> None:
        if self.other is not None and self._is_cut(self.other, self):
            self.world.after(500.0, lambda: self._hung_up(error))
            return
        self.closed(error)
        self.network.forget(self.stream)

    def _is_cut(self, source: End, target: End) -> bool:
        links = self.network.links_cut
        return bool(links) and (source.process.host, target.process.host) in links

    def _deliver(self) -> None:
        """Deliver what was sent first, or the end of the stream, to the other end."""
        self._scheduled = False
        other, network = self.other, self.network
        if self.finished or other is None or other.finished or self.stream.silent:
            return
        if network.links_cut and self._is_cut(self, other):
            self._wait_for_link()
            return
        if self.stream.stalled_until_ms > self.world.now_ms:
            self._scheduled = True
            self.world.after(self.stream.stalled_until_ms - self.world.now_ms, self._deliver)
            return
        if other._paused or other._held:
            return
        queue = self._queue
        if queue:
            data = queue.popleft()
            split = network.conditions.split_chance
            if split and len(data) > 1 and network.random() < split:
                size = network.piece(len(data))
                queue.appendleft(data[size:])
                data = data[:size]
            self._queued_bytes -= len(data)
            network.delivered += 1
            process = other.process
            if process.is_free:
                self.world.touched = process.owner
                other._receive(data)
            else:
                process.run(partial(other._receive, data))
            if queue or self._closing:
                self.schedule()
        elif self._closing:
            self.closed(None)
            other.closed(None)
            network.forget(self.stream)

    def _wait_for_link(self) -> None:
        """The link is cut: a healed one calls :meth:`Stream.flow`; a cut too long ends the stream."""
        stream, world = self.stream, self.world
        if stream.cut_since_ms is None:
            stream.cut_since_ms = world.now_ms
            since = world.now_ms

            def expire() -> None:
                if stream.cut_since_ms == since:
                    stream.break_off(TimeoutError(110, "nothing got through for too long"))

            world.after(CUT_TIMEOUT_MS, expire)

    def _receive(self, data: bytes) -> None:
        if not (self._held or self.finished or self._paused or self._aborted):
            # Usually all of it is wanted at once.
            receiver, size = self.receiver, len(data)
            buffer = receiver.get_buffer()
            if len(buffer) >= size:
                buffer[:size] = data
                receiver.buffer_updated(size)
                other = self.other
                if other is not None and (other._queue or other._closing):
                    other.schedule()
                return
        self._held.append(memoryview(data))
        self._feed()

    def _feed(self) -> None:
        """Hand on what arrived, as far as the receiver wants it."""
        held = self._held
        while held and not (self.finished or self._paused or self._aborted):
            view = held[0]
            buffer = self.receiver.get_buffer()
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            if size < len(view):
                held[0] = view[size:]
            else:
                held.popleft()
            self.receiver.buffer_updated(size)
        if not held and self.other is not None:
            self.other.schedule()

    def closed(self, error: OSError | None) -> None:
        if self.finished:
            return
        self.finished = True
        if self.gate is not None:
            self.gate.on_ended(self._peer.host)
        if self.process.alive:
            self.process.run(lambda: self.receiver.on_closed(error))
