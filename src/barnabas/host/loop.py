"""The event loop: one thread with a poller and timers; measures how long its turns take.

It has the methods of asyncio's loop that callbacks need, without tasks, futures, contexts and handles. It is
not asyncio because that takes 50 ms to import instead of 5, which matters if several nodes start on one
machine, and because each event costs less.

A turn is the time between two polls. During a turn no new event is served, so a turn ends after
`limits.SLICE_MS` and its remaining callbacks run in the next one, in order. Only a single long callback can
make a turn longer. The longest turn is a metric, in elapsed and in CPU time, with the name of the callback
that took most of it. Turns above `limits.TURN_MS_MAX` are counted and reported (`TurnTimes.report_slow`).
Between two turns a `Housekeeper` may run for a turn.

Invariants: all callbacks run on the thread that called `run_forever`. An exception of a callback goes to the
exception handler and stops nothing else. After a descriptor was removed its callbacks are not called any
more, also not for an event that was polled before.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from time import monotonic, perf_counter, thread_time
from typing import Any, NamedTuple, Protocol

from barnabas import limits
from barnabas.host.system.pollers import IN, OUT, READABLE, WRITABLE, new_poller
from barnabas.host.system.wakeups import new_wakeup

Callback = Callable[..., object]
FaultHandler = Callable[[str, Exception], None]
_Call = tuple[Callback, tuple[Any, ...]]

_SLOW_S = limits.TURN_MS_MAX / 1000
_SLICE_S = limits.SLICE_MS / 1000
_SIGNALS_READ = 512
"""Bytes read at once from the signal pipe; each signal is one byte."""


class Turn(NamedTuple):
    """One turn: its elapsed time, its CPU time on the loop's thread, and the callback that took most of
    it."""

    took_ms: float
    cpu_ms: float
    most: str
    most_ms: float

    def describe(self) -> dict[str, float | str]:
        return {
            "took_ms": round(self.took_ms, 3),
            "cpu_ms": round(self.cpu_ms, 3),
            "most": self.most,
            "most_ms": round(self.most_ms, 3),
        }


NO_TURN = Turn(0.0, 0.0, "", 0.0)


class TurnTimes:
    """Durations of turns since the start, or since `reset`."""

    __slots__ = ("_on_slow", "busy_s", "longest", "longest_cpu", "slow", "turns")

    def __init__(self) -> None:
        self._on_slow: Callable[[Turn], None] | None = None
        self.reset()

    def report_slow(self, on_slow: Callable[[Turn], None]) -> None:
        """Call `on_slow` for each turn above `limits.TURN_MS_MAX` from now on."""
        self._on_slow = on_slow

    def reset(self) -> None:
        self.turns = self.slow = 0
        self.busy_s = 0.0
        """The time of all turns together."""
        self.longest = NO_TURN
        """The longest turn in elapsed time."""
        self.longest_cpu = NO_TURN
        """The longest turn in CPU time, on which other processes have no influence."""

    @property
    def longest_s(self) -> float:
        return self.longest.took_ms / 1000

    def add(
        self, took_s: float, cpu_s: float = 0.0, most: Callback | None = None, most_s: float = 0.0
    ) -> None:
        self.turns += 1
        self.busy_s += took_s
        if took_s * 1000 <= self.longest.took_ms and cpu_s * 1000 <= self.longest_cpu.cpu_ms:
            if took_s <= _SLOW_S:
                return
        turn = Turn(took_s * 1000, cpu_s * 1000, name_of(most), most_s * 1000)
        if turn.took_ms > self.longest.took_ms:
            self.longest = turn
        if turn.cpu_ms > self.longest_cpu.cpu_ms:
            self.longest_cpu = turn
        if took_s > _SLOW_S:
            self.slow += 1
            if self._on_slow is not None:
                self._on_slow(turn)

    def describe(self) -> dict[str, float | str]:
        return {
            "turns": self.turns,
            "slow_turns": self.slow,
            "longest_turn_ms": round(self.longest.took_ms, 3),
            "longest_turn_in": self.longest.most,
            "longest_turn_cpu_ms": round(self.longest_cpu.cpu_ms, 3),
            "longest_turn_cpu_in": self.longest_cpu.most,
        }


def name_of(callback: Callback | None) -> str:
    """A callback's qualified name; if its object has a text `doing`, that is appended."""
    while isinstance(callback, partial):
        callback = callback.func
    if callback is None:
        return ""
    name = getattr(callback, "__qualname__", None) or type(callback).__name__
    doing = getattr(getattr(callback, "__self__", None), "doing", None)
    return f"{name}: {doing}" if doing else str(name)


class Timer:
    """One call in the future."""

    __slots__ = ("_arguments", "_callback", "_order", "when_s")

    def __init__(
        self, when_s: float, order: int, callback: Callback, arguments: tuple[Any, ...]
    ) -> None:
        self.when_s = when_s
        self._order = order
        self._callback: Callback | None = callback
        self._arguments = arguments

    def __lt__(self, other: Timer) -> bool:
        return (self.when_s, self._order) < (other.when_s, other._order)

    def cancel(self) -> None:
        self._callback = None
        self._arguments = ()

    def claim(self) -> _Call | None:
        """The callback and its arguments, once; None if it was cancelled."""
        callback, self._callback = self._callback, None
        return None if callback is None else (callback, self._arguments)


class Housekeeper(Protocol):
    """Work that is done between turns, such as garbage collection."""

    def between_turns(self, *, idle: bool) -> bool:
        """Do a part of the work if any is due. Returns whether it did; `idle`: no callback waits."""


class Loop:
    """The loop. Times are seconds of the monotonic clock; `times` has the durations of turns."""

    def __init__(
        self, on_fault: FaultHandler | None = None, *, measures_turns: bool = True
    ) -> None:
        """Without `measures_turns` it has no `times` and no `housekeeper`: a program that waits for single
        answers saves two looks at the CPU's clock per turn."""
        self.times = TurnTimes()
        self._measures_turns = measures_turns
        self.housekeeper: Housekeeper | None = None
        self._on_fault = on_fault
        self._poller = new_poller()
        self._masks: dict[int, int] = {}
        self._readers: dict[int, _Call] = {}
        self._writers: dict[int, _Call] = {}
        self._removed: set[int] = set()
        self._left: list[tuple[int, int]] = []
        """Polled events that the last turn did not dispatch any more."""
        self._ready: deque[_Call] = deque()
        self._timers: list[Timer] = []
        self._order = 0
        self._at = self._until = perf_counter()
        """When the last callback ended, and when this turn has to end."""
        self._most: Callback | None = None
        self._most_s = 0.0
        """The longest callback of this turn."""
        self._signals: dict[int, Any] = {}
        self._signal_pipe: tuple[int, int] | None = None
        self._woken_before = -1
        """The signal wake-up descriptor that was set before this loop's."""
        self._stopping = False
        self._closed = False
        self._closing = threading.RLock()  # a signal handler may come while it is held
        self._wakeup = new_wakeup()
        self.add_reader(self._wakeup.fd, self._wakeup.drain)

    def __repr__(self) -> str:
        return f"Loop({len(self._masks)} descriptors, {len(self._timers)} timers)"

    # -- calls ---------------------------------------------------------------------------------

    def time(self) -> float:
        return monotonic()

    @property
    def callback_began(self) -> float:
        """When the callback that runs now began."""
        return self._at  # perf_counter and monotonic are one clock on all systems but Windows

    def call_soon(self, callback: Callback, *arguments: Any) -> None:
        """Call `callback` later in this turn or in the next one."""
        self._ready.append((callback, arguments))

    def call_soon_threadsafe(self, callback: Callback, *arguments: Any) -> None:
        """Call as `call_soon` does, from any thread or signal handler."""
        self._ready.append((callback, arguments))
        with self._closing:
            if not self._closed:
                self._wakeup.wake()

    def call_at(self, when_s: float, callback: Callback, *arguments: Any) -> Timer:
        self._order += 1
        timer = Timer(when_s, self._order, callback, arguments)
        heappush(self._timers, timer)
        return timer

    def call_later(self, delay_s: float, callback: Callback, *arguments: Any) -> Timer:
        return self.call_at(monotonic() + delay_s, callback, *arguments)

    # -- descriptors ---------------------------------------------------------------------------

    def add_reader(self, fd: int, callback: Callback, *arguments: Any) -> None:
        self._readers[fd] = (callback, arguments)
        self._watch(fd, self._masks.get(fd, 0) | IN)

    def add_writer(self, fd: int, callback: Callback, *arguments: Any) -> None:
        self._writers[fd] = (callback, arguments)
        self._watch(fd, self._masks.get(fd, 0) | OUT)

    def remove_reader(self, fd: int) -> None:
        if self._readers.pop(fd, None) is not None:
            self._watch(fd, self._masks[fd] & ~IN)

    def remove_writer(self, fd: int) -> None:
        if self._writers.pop(fd, None) is not None:
            self._watch(fd, self._masks[fd] & ~OUT)

    def _watch(self, fd: int, mask: int) -> None:
        old = self._masks.get(fd, 0)
        if mask == old:
            return
        if not old:
            self._poller.register(fd, mask)
        elif mask:
            self._poller.modify(fd, mask)
        else:
            self._poller.unregister(fd)
            del self._masks[fd]
            self._removed.add(fd)  # its number may be another's before this turn ends
            return
        self._masks[fd] = mask

    # -- signals -------------------------------------------------------------------------------

    def add_signal_handler(self, number: int, callback: Callback, *arguments: Any) -> None:
        """Call `callback` in a turn of the loop after the signal. Only on the main thread."""

        def on_signal(*_: object) -> None:
            self.call_soon_threadsafe(callback, *arguments)

        if self._signal_pipe is None:
            self._let_signals_wake()
        before = signal.signal(number, on_signal)
        self._signals.setdefault(number, before)

    def _let_signals_wake(self) -> None:
        """Have signals end a wait. Python runs signal handlers between bytecodes only: a signal just before
        the poll, or to another thread, would not interrupt it. The interpreter also writes a byte to this
        pipe, at once."""
        reader, writer = self._signal_pipe = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self._woken_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self.add_reader(reader, os.read, reader, _SIGNALS_READ)

    # -- running -------------------------------------------------------------------------------

    def run_forever(self) -> None:
        """Run until `stop` is called. May be called again."""
        woke, cpu = perf_counter(), thread_time() if self._measures_turns else 0.0
        while True:
            timeout = self._timeout()
            if self._measures_turns:
                ended, now_cpu = perf_counter(), thread_time()
                self.times.add(ended - woke, now_cpu - cpu, self._most, self._most_s)
                cpu = now_cpu
                keeper = self.housekeeper
                if keeper is not None and keeper.between_turns(idle=timeout != 0.0):
                    took_s, cpu = perf_counter() - ended, thread_time()
                    self.times.add(took_s, cpu - now_cpu, keeper.between_turns, took_s)
                    timeout = self._timeout()
            events = self._poller.poll(timeout)
            woke = self._at = perf_counter()
            self._until = woke + _SLICE_S
            self._most, self._most_s = None, 0.0
            if self._left:
                events = self._with_left_events(events)
            self._dispatch(events)
            if self._timers:
                self._run_timers()
            if self._ready:
                self._run_ready()
            if self._stopping:
                self._stopping = False
                return

    def stop(self) -> None:
        """End `run_forever` after the current turn; if it does not run, after its first one."""
        self._stopping = True

    def close(self) -> None:
        """Close the descriptors, restore signal handlers, and drop all scheduled callbacks."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._wakeup.close()
        for number, before in self._signals.items():
            signal.signal(number, before)
        if self._signal_pipe is not None:
            signal.set_wakeup_fd(self._woken_before)
            for fd in self._signal_pipe:
                os.close(fd)
        self._ready.clear()
        self._timers.clear()
        self._poller.close()

    def is_closed(self) -> bool:
        return self._closed

    def set_exception_handler(self, on_fault: FaultHandler) -> None:
        """Set the handler of exceptions in callbacks. Without one they end `run_forever`."""
        self._on_fault = on_fault

    def fault(self, message: str, error: Exception) -> None:
        """Pass an exception to the handler; raise it if there is none."""
        if self._on_fault is None:
            raise error
        self._on_fault(message, error)

    def _timeout(self) -> float:
        """Longest wait of the next poll in seconds; -1 is without limit."""
        if self._ready or self._left or self._stopping:
            return 0.0
        if not self._timers:
            return -1.0
        return max(0.0, self._timers[0].when_s - monotonic())

    def _with_left_events(self, events: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The events that the last turn left, except of removed descriptors, before the new ones; each
        descriptor once."""
        merged = {fd: mask for fd, mask in self._left if fd not in self._removed}
        self._left = []
        merged.update(events)
        return list(merged.items())

    def _dispatch(self, events: list[tuple[int, int]]) -> None:
        removed = self._removed
        if removed:
            removed.clear()
        for position, (fd, mask) in enumerate(events):
            if self._at >= self._until:
                self._left = events[position:]
                return
            if removed and fd in removed:
                continue
            if mask & READABLE:
                call = self._readers.get(fd)
                if call is not None:
                    self._run(call)
                    if removed and fd in removed:
                        continue
            if mask & WRITABLE:
                call = self._writers.get(fd)
                if call is not None:
                    self._run(call)

    def _run_timers(self) -> None:
        now = monotonic()
        timers = self._timers
        while timers and timers[0].when_s <= now:
            call = heappop(timers).claim()
            if call is not None:
                self._run(call)
                if self._at >= self._until:
                    return

    def _run_ready(self) -> None:
        """Run the callbacks that are ready now, at least one. Those that they schedule wait, so that
        callbacks which schedule themselves do not starve others."""
        ready = self._ready
        for _ in range(len(ready)):
            self._run(ready.popleft())
            if self._at >= self._until:
                return

    def _run(self, call: _Call) -> None:
        try:
            call[0](*call[1])
        except Exception as error:  # noqa: BLE001 - one callback's fault only
            self.fault("a callback failed", error)
        before, self._at = self._at, perf_counter()
        if self._at - before > self._most_s:
            self._most, self._most_s = call[0], self._at - before


def end_signals() -> list[signal.Signals]:
    """The signals that end a program: SIGTERM, SIGINT, and SIGHUP unless it is ignored (``nohup``)."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


def new_loop() -> Loop:
    """A loop of this machine."""
    return Loop()
