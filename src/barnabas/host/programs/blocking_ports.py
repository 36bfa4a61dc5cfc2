"""The ports of a client in a program that asks and waits, such as a task of Spark.

The loop runs while the program waits for an answer, and at no other time. There is no thread: a job, such as
the look-up of a host name, runs at once, since the program would wait for it anyway. What fails is raised
where it is waited for; the program's log repeats it at level debug.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

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


class BlockingBackground:
    """``ports.Background`` of a program that waits: a job runs where it is given."""

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
    """``ports.ClientPorts`` of one client. A fault in a callback ends the wait that it happens in."""

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
