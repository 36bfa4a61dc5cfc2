"""The worker processes that play seeds for their parent.

Each plays a few seeds and ends. Its garbage ends with it; a collection after each seed would take a tenth of
the seed's time. Where the system can fork, workers are forked from a server process that has nothing open and
has played a few seeds itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, Generic, TypeVar

SEEDS_EACH = 20
"""Seeds that one process plays: each leaves 5 to 10 MB of garbage."""

Work = TypeVar("Work")
Played = TypeVar("Played")


class WorkerLostError(Exception):
    """A worker ended without an answer: it was killed, or what it played raised."""


@dataclass(slots=True)
class _Worker(Generic[Work]):
    process: BaseProcess
    connection: Connection
    given: tuple[int, Work]
    """(number, work) that it plays now."""
    more: int
    """How many more works it may receive."""

    def give(self, given: tuple[int, Work]) -> None:
        self.given, self.more = given, self.more - 1
        with suppress(BrokenPipeError):  # the worker has ended: `take` raises WorkerLostError
            self.connection.send(given[1])

    def take(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise WorkerLostError(f"the process that played {self.given[1]} {self.end()}") from None

    def end(self) -> str:
        code = self.process.exitcode
        assert code is not None
        if code != -signal.SIGKILL:
            return f"ended with {signal.Signals(-code).name if code < 0 else f'status {code}'}"
        return "was killed: if no person did it, the system ran out of memory"


def in_order(
    play: Callable[[Work], Played], works: Iterable[Work], jobs: int, works_each: int
) -> Iterator[Played]:
    """The result of `play` for each of `works`, in their order. Raises as `as_played` does."""
    early: dict[int, Played] = {}
    due = 0
    for number, played in as_played(play, works, jobs, works_each):
        early[number] = played
        while due in early:
            yield early.pop(due)
            due += 1


def as_played(
    play: Callable[[Work], Played], works: Iterable[Work], jobs: int, works_each: int
) -> Iterator[tuple[int, Played]]:
    """The number of each of `works` and the result of `play` for it, as soon as that is known.

    `jobs` processes play at a time; each is replaced after `works_each` works. All of them have ended when
    the iterator ends.

    Raises:
        WorkerLostError: A process ended without an answer.
    """
    context = _context()
    numbered = enumerate(works)
    workers: dict[Connection, _Worker[Work]] = {}
    try:
        while True:
            while len(workers) < jobs and (given := next(numbered, None)) is not None:
                connection, its_own = context.Pipe()
                process = context.Process(target=_work, args=(its_own, play), daemon=True)
                process.start()
                its_own.close()
                workers[connection] = worker = _Worker(process, connection, given, works_each)
                worker.give(given)
            if not workers:
                return
            for ready in wait(list(workers)):
                assert isinstance(ready, Connection)
                worker = workers[ready]
                number, played = worker.given[0], worker.take()
                if worker.more and (given := next(numbered, None)) is not None:
                    worker.give(given)
                else:
                    workers.pop(ready).connection.close()
                    worker.process.join()
                yield number, played
    finally:
        for worker in workers.values():
            worker.process.kill()
        for worker in workers.values():
            worker.process.join()
            worker.connection.close()


def _context() -> Any:
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        context.set_forkserver_preload(
            ["barnabas.sim.runner.run_journal", "barnabas.sim.runner.warm_up"]
        )
    return context


def _work(connection: Connection, play: Callable[[Any], Any]) -> None:
    """The worker process: play each work that arrives, until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    _end_with_parent()
    with suppress(EOFError):
        while True:
            connection.send(play(connection.recv()))


def _end_with_parent() -> None:
    """End with the parent: when it is killed, no process receives what a worker finds."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, name="parent-watch", daemon=True).start()
