"""A simulated machine and the process on it: the ports a node gets in simulation.

Everything that a process does runs through :meth:`SimProcess.run`: a dead process does nothing, a
paused one (SIGSTOP, a long collection, a slow host) does it later, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from barnabas.limits import CONNECTIONS_MAX, NodeBounds
from barnabas.ports import ConnectionGate, Helper, Listener, Receiver, Rng
from barnabas.sim.world.background import SYNC_MS_MAX, SimBackground
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.helper import SimHelper
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.world import START_WALL_MS, Event, World
from barnabas.sim.world.zookeeper_client import SimZooKeeper
from barnabas.types import Endpoint
from barnabas.zookeeper.session import ZooKeeper

COUNTED = {
    "fetcher.truncating": "truncations",
    "raft.snapshot": "snapshots taken",
    "raft.snapshot_installed": "snapshots installed",
    "raft.truncate": "quorum truncations",
    "log.directory_offline": "directories offline",
    "log.moved": "logs moved to another directory",
    "log.mended": "batches mended",
    "log.compacted": "logs compacted",
    "coordinator.load_failed": "coordinators not loaded at once",
}
"""Events of a node's log that the totals of a run count."""
FAULTS = frozenset(
    {
        "request.failed",
        "request.forwarded_failed",
        "connection.malformed",
        "connection.unanswerable",
    }
)
"""Events that no node's log may have while its peers are sound."""
ROUNDING_MS = 1e-6
CLOCK_READ_MS = (0.0, 0.0, 0.3, 2.0, 6.0)
"""The longest time that one clock read costs, in one life or another: the node cuts work into slices by
clock reads, and virtual time itself does not advance while a turn runs."""
AHEAD_MS_MAX = 40.0
"""A node's clock that is ahead of virtual time by so much does not advance."""


class SimMachine:
    """A host with a disk; processes start and end on it."""

    def __init__(self, world: World, network: SimNetwork, host: str, disk: SimDisk) -> None:
        self.world = world
        self.network = network
        self.host = host
        self.disk = disk
        self.lives_differ = False
        """Whether each process here draws what a look at its clock takes."""
        self.off = False
        """Without power: nothing answers, not even a refusal."""
        self.clock_offset_ms = 0.0
        self.was_set = False
        """Whether its date ever jumped."""
        self.clock_ahead_ms = 0.0
        """The most that its date was ever ahead."""
        self.clock_rate = 1.0
        """Monotonic milliseconds per virtual one; :meth:`set_clock_rate` changes it."""
        self.is_steady = True
        """Whether the rate was always 1: the clock says the virtual instant."""
        self._rate_since_ms = (0.0, 0.0)
        """Virtual instant from which the rate holds, and what the clock said then."""
        self.sync_ms_max = SYNC_MS_MAX
        self.machines: dict[str, SimMachine] = {}
        self.starts = 0

    def jump(self, by_ms: float) -> None:
        """Its date is another one from now on."""
        self.clock_offset_ms += by_ms
        self.was_set = True
        self.clock_ahead_ms = max(self.clock_ahead_ms, self.clock_offset_ms)

    def clock_ms(self) -> float:
        """The monotonic clock."""
        if self.is_steady:
            return self.world.now_ms
        since, said = self._rate_since_ms
        return said + (self.world.now_ms - since) * self.clock_rate

    def virtual_ms(self, clock_ms: float) -> float:
        """When the clock will say `clock_ms`, if its rate stays; never before it does."""
        if self.is_steady:
            return clock_ms
        since, said = self._rate_since_ms
        return since + (clock_ms - said) / self.clock_rate + ROUNDING_MS

    def set_clock_rate(self, rate: float) -> None:
        """From now on the clock drifts so; it does not jump."""
        self._rate_since_ms = (self.world.now_ms, self.clock_ms())
        self.clock_rate = rate
        self.is_steady = False

    def start_process(self, owner: ProcessOwner | None = None) -> SimProcess:
        """`owner` is the node that runs there; None for a client."""
        self.off = False
        self.starts += 1
        return SimProcess(self, owner)


class ProcessOwner(Protocol):
    """The node that runs in a process."""

    def on_halt(self, process: SimProcess, reason: str, /) -> None:
        """The process has halted itself."""


class SimProcess:
    """One life of a process, and its ports (it is a :class:`barnabas.ports.Ports`)."""

    def __init__(self, machine: SimMachine, owner: ProcessOwner | None = None) -> None:
        self.machine = machine
        self.bounds = NodeBounds()
        self.host = machine.host
        self.world = machine.world
        self.alive = True
        self.name = f"{machine.host}#{machine.starts}"
        self.clock = SimClock(machine, machine.world.rng(f"{self.name}/looks"))
        self.disk = machine.disk.open_for_process()
        self.network = ProcessNetwork(self)
        self.background = SimBackground(self)
        self.wakeups = SimWakeups(self)
        self.helper: Helper = SimHelper(self)
        self.zookeeper: ZooKeeper = SimZooKeeper(self)
        self.log_lines: deque[str] = deque(maxlen=400)
        self.owner = owner
        """The node that runs here; None for a client."""
        self.is_free = True
        """Whether an action may run at once. Where it is False, :meth:`run` checks why."""
        self._paused_until_ms = 0.0
        self._backlog: deque[Callable[[], None]] = deque()
        self._slow_ms = 0.0
        self._crawls = False
        self._slowness = machine.world.rng(f"{self.name}/slowness")

    # -- Ports -----------------------------------------------------------------------------------

    def rng(self, concern: str) -> Rng:
        return self.world.rng(f"{self.name}/{concern}")

    def log(self, level: str, event: str, **fields: object) -> None:
        shown = " ".join(f"{key}={value}" for key, value in fields.items())
        if event in COUNTED:
            self.world.totals[COUNTED[event]] += 1
        line = f"{self.name} {level} {event} {shown}"
        self.log_lines.append(f"{self.world.now_ms:11.3f} {line}")
        if level != "debug":
            self.world.note(line)
        if event in FAULTS and self.alive:  # what one that halts says as it ends is its end's
            self.world.faults.append(line)

    def halt(self, reason: str) -> None:
        self.world.note(f"{self.name} halts: {reason}")
        self.alive = self.is_free = False
        self.background.unwind()
        self.world.at(self.world.now_ms, partial(self._report_halt, reason))

    def _report_halt(self, reason: str) -> None:
        if self.owner is not None:
            self.owner.on_halt(self, reason)

    # -- life ------------------------------------------------------------------------------------

    def run(self, action: Callable[[], None]) -> None:
        """Do `action` as this process: not at all once dead, later while paused."""
        if not self.is_free and not self._comes_through(action):
            return
        self.world.touched = self.owner
        action()

    def _comes_through(self, action: Callable[[], None]) -> bool:
        """Whether `action` may run now; if not, it waits in the backlog, or is dropped after a death."""
        if not self.alive:
            return False
        if self._backlog or self._slow_ms or self.world.now_ms < self._paused_until_ms:
            self._backlog.append(action)
            if self._slow_ms:
                self._crawl_soon()
            return False
        self.is_free = True
        return True

    def pause(self, duration_ms: float) -> None:
        """Do nothing for `duration_ms`; what arrives is done afterwards, in order."""
        self.is_free = False
        self._paused_until_ms = max(self._paused_until_ms, self.world.now_ms + duration_ms)
        self.world.at(self._paused_until_ms, self._resume)

    def _resume(self) -> None:
        if self.world.now_ms < self._paused_until_ms:
            return
        if self._slow_ms and self._backlog:
            self._crawl_soon()
        else:
            self._catch_up()

    def _catch_up(self) -> None:
        self.world.touched = self.owner
        backlog, self._backlog = self._backlog, deque()
        while backlog and self.alive:
            backlog.popleft()()

    def slow_down(self, delay_ms_max: float) -> None:
        """From now on every step comes up to `delay_ms_max` after the one before; 0 ends it."""
        self.is_free = False
        self._slow_ms = delay_ms_max

    def _crawl_soon(self) -> None:
        if not self._crawls:
            self._crawls = True
            self.world.after(self._slowness.uniform(0, self._slow_ms), self._crawl)

    def _crawl(self) -> None:
        """One step of what waits; all of it once the process is fast again."""
        self._crawls = False
        if not self.alive or self.world.now_ms < self._paused_until_ms:
            return
        if not self._slow_ms:
            self._catch_up()
        elif self._backlog:
            self.world.touched = self.owner
            self._backlog.popleft()()
            if self._backlog:
                self._crawl_soon()

    def kill(self, *, power_loss: bool = False) -> None:
        """kill -9; with `power_loss` the machine goes with it and unsynced bytes are at risk."""
        self.alive = self.is_free = False
        self.machine.off = power_loss
        self.machine.network.process_died(self, silently=power_loss)
        self.machine.disk.process_died(power_loss=power_loss)
        self._backlog.clear()
        self.background.unwind()

    def machine_is_off(self, host: str) -> bool:
        other = self.machine.machines.get(host)
        return other is not None and other.off


class SimClock:
    """A machine's clock: monotonic time with a drift, a date with an offset. In some lives it advances by a
    little with each read, and then waits for virtual time to catch up."""

    def __init__(self, machine: SimMachine, rng: Rng) -> None:
        self._machine = machine
        self._world = machine.world
        self._look_ms = rng.random() * rng.choice(CLOCK_READ_MS) if machine.lives_differ else 0.0
        self._said_ms = 0.0

    def now_ms(self) -> float:
        machine = self._machine
        now_ms = self._world.now_ms if machine.is_steady else machine.clock_ms()
        if not self._look_ms:
            return now_ms
        if self._said_ms < now_ms:
            self._said_ms = now_ms + self._look_ms
        elif self._said_ms < now_ms + AHEAD_MS_MAX:
            self._said_ms += self._look_ms
        return self._said_ms

    def wall_ms(self) -> int:
        return START_WALL_MS + int(self._world.now_ms + self._machine.clock_offset_ms)


class ProcessNetwork:
    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self.unsent_bytes = 0  # simulated messages are small
        self.capacity = CONNECTIONS_MAX

    def listen(
        self,
        endpoint: Endpoint,
        accept: Callable[[], Receiver],
        gate: ConnectionGate | None = None,
    ) -> Listener:
        here = Endpoint(self._process.host, endpoint.port)
        return self._process.machine.network.listen(self._process, here, accept, gate)

    def addresses_of(self, host: str) -> list[str]:
        return [host]

    def machine_name(self) -> str:
        return self._process.host

    def connect(self, endpoint: Endpoint, receiver: Receiver) -> None:
        self._process.machine.network.connect(self._process, endpoint, receiver)


class SimWakeups:
    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self._machine = process.machine
        self._world = process.world
        self._run = process.run

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._world.after(0.0, partial(self._run, callback))

    def callback_began_ms(self) -> float:
        return self._process.clock.now_ms()

    def call_at(self, when_ms: float, callback: Callable[[], None]) -> Event:
        ring, machine = Ring(self._process, when_ms, callback), self._machine
        virtual_ms = when_ms if machine.is_steady else machine.virtual_ms(when_ms)
        self._world.schedule(virtual_ms, ring.ring, ring)
        return ring


class Ring(Event):
    """One wake-up of a process at an instant of its own clock."""

    __slots__ = ("callback", "process", "when_ms")

    def __init__(self, process: SimProcess, when_ms: float, callback: Callable[[], None]) -> None:
        self.cancelled = False
        self.process = process
        self.when_ms = when_ms
        self.callback = callback

    def ring(self) -> None:
        machine = self.process.machine
        if machine.is_steady or machine.clock_ms() >= self.when_ms:
            self.process.run(self._call)
        else:  # the clock has become slower meanwhile
            machine.world.schedule(machine.virtual_ms(self.when_ms), self.ring, self)

    def _call(self) -> None:
        """A process that was paused does what came before first, which may cancel this."""
        if not self.cancelled:
            self.callback()
