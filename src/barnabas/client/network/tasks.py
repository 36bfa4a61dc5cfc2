"""Runs coroutines over the ports, without asyncio or threads.

A `Task` drives one coroutine, which awaits `TaskOutcome` objects. A callback on the node's or client's thread
fills an outcome, and the coroutine continues in the same turn. In the simulator the same coroutines wait for
simulated answers.

Invariants: an outcome is filled once; a task ends once, with its coroutine's value or exception; the failure
of a task without a watcher is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from barnabas.ports import ClientPorts

T = TypeVar("T")
OnLost: TypeAlias = Callable[[BaseException], None]


class Cancelled(Exception):
    """Raised inside a task, where it awaits, when it is cancelled."""


class TaskOutcome(Generic[T]):
    """A future value or exception, which a task can await."""

    __slots__ = ("_error", "_value", "_watchers", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._watchers: list[Callable[[TaskOutcome[T]], None]] = []

    def __repr__(self) -> str:
        state = "waits" if not self.done else repr(self._error or self._value)
        return f"{type(self).__name__}({state})"

    def resolve(self, value: T) -> None:
        """Fill with a value; ignored if it is filled already (the waiting task may have been cancelled)."""
        if not self.done:
            self._value = value
            self._finish()

    def reject(self, error: BaseException) -> None:
        if not self.done:
            self._error = error
            self._finish()

    def complete(self, value: T | BaseException) -> None:
        """Fill with what a callback got: an exception is a failure."""
        if isinstance(value, BaseException):
            self.reject(value)
        elif not self.done:
            self._value = value
            self._finish()

    def take_over(self, other: TaskOutcome[T]) -> None:
        """Fill with what `other`, which is filled, has; a watcher of it."""
        if not self.done:
            self._value, self._error = other._value, other._error
            self._finish()

    def _finish(self) -> None:
        self.done = True
        if self._watchers:
            watchers, self._watchers = self._watchers, []
            fault: Exception | None = None
            for watcher in watchers:
                try:
                    watcher(self)
                except Exception as error:  # noqa: BLE001 - raised when all watchers were called
                    fault = fault or error
            if fault is not None:
                raise fault

    @property
    def watched(self) -> bool:
        return bool(self._watchers)

    def when_done(self, watcher: Callable[[TaskOutcome[T]], None]) -> None:
        """Call `watcher` when it is filled; at once if it is filled already."""
        if self.done:
            watcher(self)
        else:
            self._watchers.append(watcher)

    def result(self) -> T:
        """The value of a filled outcome. Raises its exception."""
        assert self.done
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[TaskOutcome[T], None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class Task(TaskOutcome[T]):
    """A running coroutine; also the outcome with its result."""

    __slots__ = ("_cancelled", "_coroutine", "_on_ended", "_on_lost", "_running", "_waits_for")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        on_lost: OnLost,
        on_ended: Callable[[Task[Any]], None] | None = None,
    ) -> None:
        """`on_lost` gets a failure that no watcher gets; `on_ended` is called before the watchers."""
        self.done = False
        self._value = self._error = None
        self._watchers = []
        self._coroutine = coroutine
        self._on_lost = on_lost
        self._waits_for: TaskOutcome[Any] | None = None
        self._running = self._cancelled = False
        self._on_ended = on_ended

    def _finish(self) -> None:
        if self._on_ended is not None:
            self._on_ended(self)
        TaskOutcome._finish(self)

    def start(self) -> None:
        self._advance(None)

    def cancel(self) -> None:
        """Raise `Cancelled` inside the coroutine where it awaits; if the coroutine itself calls this, at its
        next await. Does nothing if the task is done."""
        if self._running:
            self._cancelled = True
        elif not self.done:
            self._waits_for = None
            self._advance(Cancelled())

    def _wake(self, outcome: TaskOutcome[Any]) -> None:
        if outcome is self._waits_for:  # otherwise the task was cancelled meanwhile
            self._advance(None)

    def _advance(self, error: BaseException | None) -> None:
        self._running = True
        try:
            awaited = self._coroutine.throw(error) if error else self._coroutine.send(None)
        except StopIteration as stop:
            self.resolve(stop.value)
        except Cancelled as cancelled:
            self.reject(cancelled)
        except Exception as failure:  # noqa: BLE001 - it is passed to the watchers
            if not self.watched:
                self._on_lost(failure)
            self.reject(failure)
        else:
            self._waits_for = awaited
            self._running = False
            if self._cancelled:
                self._cancelled = False
                self.cancel()
            elif awaited.done:
                self._wake(awaited)
            else:
                awaited._watchers.append(self._wake)
        finally:
            self._running = False


class Tasks:
    """Starts tasks, has them sleep by the ports' clock, and cancels them on `close`."""

    def __init__(self, ports: ClientPorts, on_lost: OnLost | None = None) -> None:
        """`on_lost` gets failures that no task awaits (None: they are logged)."""
        self._ports = ports
        self.on_lost = on_lost or self._log_lost
        self._now_ms, self._call_at = ports.clock.now_ms, ports.wakeups.call_at
        self._running: dict[Task[Any], None] = {}
        self._closed = False

    def close(self) -> None:
        """Cancel all tasks; a task that is started afterwards is cancelled before its first step."""
        self._closed = True
        while self._running:
            task, _ = self._running.popitem()
            task.cancel()

    def start(
        self,
        coroutine: Coroutine[Any, Any, T],
        on_done: Callable[[TaskOutcome[T]], None] | None = None,
    ) -> Task[T]:
        """Run `coroutine` to its first await; it continues when the awaited outcome is filled."""
        task = Task(coroutine, self.on_lost, self._forget)
        if on_done is not None:
            task.when_done(on_done)
        if self._closed:
            coroutine.close()
            task.reject(Cancelled())
            return task
        self._running[task] = None
        task.start()
        return task

    def _forget(self, task: Task[Any]) -> None:
        self._running.pop(task, None)

    async def sleep(self, duration_ms: float) -> None:
        slept: TaskOutcome[None] = TaskOutcome()
        at_ms = self._now_ms() + duration_ms
        wakeup = self._call_at(at_ms, partial(slept.resolve, None))
        try:
            await slept
        finally:
            if not slept.done:
                wakeup.cancel()

    async def gather(self, coroutines: list[Coroutine[Any, Any, T]]) -> list[T]:
        """Run all coroutines concurrently and return their values in order. Raises the first failure when all
        have ended."""
        tasks = [Task(coroutine, lambda error: None) for coroutine in coroutines]
        try:
            for task in tasks:
                task.start()
            for task in tasks:
                ended: TaskOutcome[None] = TaskOutcome()
                task.when_done(lambda _, ended=ended: ended.resolve(None))  # type: ignore[misc]
                await ended
        except Cancelled:
            for task in tasks:
                task.cancel()
            raise
        return [task.result() for task in tasks]

    def _log_lost(self, error: BaseException) -> None:
        self._ports.log("error", "client.task_failed", error=repr(error))
