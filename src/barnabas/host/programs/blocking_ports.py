"""The ports of a client in a program that asks and waits, such as a task of Spark.

The loop runs while the program waits for an answer, and at no other time. It has no thread of its own: a job,
such as the look-up of a host name, runs at once, since the program would wait for it anyway. Several threads
may wait: one of them runs the loop for all (:class:`SharedLoop`). What fails is raised where it is waited
for; the program's log repeats it at level debug.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from threading import Condition, get_ident
from time import monotonic
from typing import TypeVar

from barnabas.client.network.connection import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.host.loop import Loop
from barnabas.host.network import HostNetwork
from barnabas.host.programs.program_ports import ProgramPorts

T = TypeVar("T")

_log = logging.getLogger(__name__)


def wait_for(loop: Loop, outcome: TaskOutcome[T]) -> T:
    """Run `loop` until `outcome` is filled. Returns its value or raises its exception."""
    if not outcome.done:
        outcome.when_done(lambda _: loop.stop())
        while not outcome.done:
            loop.run_forever()
    return outcome.result()


class SharedLoop:
    """A loop on which several threads wait: one runs it until any wait is over, then one that still waits.

    Whatever changes the loop's client is handed to `post`, so that no two threads do at a time. A process
    that was forked waits for nothing: the answers are its parent's."""

    def __init__(self, loop: Loop, on_idle: Callable[[float], object]) -> None:
        """`on_idle` is called before the loop runs again, with the ms in which it did not."""
        self._loop = loop
        self._on_idle = on_idle
        self._pid = os.getpid()
        self._turns = Condition()
        self._runner: int | None = None
        """The thread that runs the loop."""
        self._ran_at_s = monotonic()

    def __repr__(self) -> str:
        return f"SharedLoop({self._loop!r} of process {self._pid})"

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the one that opened it."""
        return self._pid != os.getpid()

    def post(self, action: Callable[[], object]) -> None:
        """Have `action` done: here and now, or by the thread that runs the loop."""
        with self._turns:
            if self._runner is not None:
                self._loop.call_soon_threadsafe(action)
            else:
                self._resume()
                action()

    def wait_for(self, outcome: TaskOutcome[T]) -> T:
        """Return when `outcome` is filled: its value, or raises its exception. Raises `ChannelError` where
        nothing will fill it."""
        if self.is_inherited and not outcome.done:
            raise ChannelError("closed", "the request is of the process that this one forked from")
        self.post(lambda: outcome.when_done(lambda _: self._loop.stop()))
        while not outcome.done:
            try:
                if self._takes_turn(outcome):
                    self._loop.run_forever()
            finally:  # an interrupt may come anywhere
                if self._runner == get_ident():
                    self._end_turn()
        return outcome.result()

    def _takes_turn(self, outcome: TaskOutcome[T]) -> bool:
        """Wait until `outcome` is filled or no other thread runs the loop: then this one does."""
        with self._turns:
            while self._runner is not None and not outcome.done:
                self._turns.wait()
            if outcome.done:
                return False
            if self._loop.is_closed():
                raise ChannelError("closed", "this client was closed")
            self._resume()
            self._runner = get_ident()
            return True

    def _end_turn(self) -> None:
        with self._turns:
            self._runner = None
            self._ran_at_s = monotonic()
            self._turns.notify_all()

    def _resume(self) -> None:
        now_s = monotonic()
        self._on_idle((now_s - self._ran_at_s) * 1000)
        self._ran_at_s = now_s

    def close(self, end: Callable[[], object]) -> None:
        """Have `end` done, which fills every outcome, and close the loop once no thread runs it."""
        self.post(end)
        with self._turns:
            while self._runner is not None:
                self._turns.wait()
            self._loop.close()


class BlockingBackground:
    """``ports.Background`` of a program that waits: a job runs when it is given."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def run(
        self, queue: str, job: Callable[[], T], done: Callable[[T | BaseException], None]
    ) -> None:
        result: T | BaseException
        try:
            result = job()
        except Exception as error:  # noqa: BLE001 - it is handed to `done`, whatever it is
            result = error
        self._loop.call_soon(done, result)

    def run_brief(
        self, queue: str, job: Callable[[], T], done: Callable[[T | BaseException], None]
    ) -> None:
        self.run(queue, job, done)


class BlockingPorts(ProgramPorts):
    """``ports.ClientPorts`` of one client. An exception in a callback ends the present wait."""

    def __init__(self) -> None:
        super().__init__(Loop(measures_turns=False))
        self.background = BlockingBackground(self.loop)
        self.network = HostNetwork(self.loop, self.background, self.log)

    def log(self, level: str, event: str, **fields: object) -> None:
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        _log.log(logging.ERROR if level == "error" else logging.DEBUG, "%s: %s", event, text)

    def close(self) -> None:
        """End all connections, and release the loop's descriptors."""
        self.network.abort_all()
        self.loop.close()
