"""Requests that are handled in steps: all of them at once, or a part per turn of the loop.

A step appends to, or reads from, some ten partitions. A handler writes its steps once, as a generator that
yields `CONTINUES` behind each step and the answer at its end. :meth:`CooperativeJobs.answer` takes all of
a small request in the turn in which it arrives. A large one becomes a job: it runs as many steps as one turn
allows and continues in later turns; other requests are served in between. Jobs do not wait for each other:
each gets a part of every turn.

A job continues after its connection has closed: as in Apache Kafka, a request that arrived complete takes
effect. Only the broker's shutdown stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from typing import TypeVar

from barnabas.limits import SLICE_MS
from barnabas.ports import Ports
from barnabas.wire.request import Parked, Working
from barnabas.wire.schema import Message

STEPS_PER_TURN_MAX = 8
"""Steps of one job in one turn of the loop, even if they take no time."""

OnError = Callable[[Exception], None]
A = TypeVar("A", bound=Message | Parked | None)


class StepResult(Enum):
    """The end of a step that is not the last one. (A generator that returned its answer would cost half a
    microsecond more.)"""

    CONTINUES = 0


CONTINUES = StepResult.CONTINUES


class CooperativeJobs:
    """The jobs of one broker."""

    def __init__(self, ports: Ports, steps_max: int = STEPS_PER_TURN_MAX) -> None:
        self._ports = ports
        self._steps_max = steps_max
        self._closed = False
        self.under_way = 0

    def answer(
        self,
        steps: Iterable[A | StepResult],
        *,
        at_once: bool,
        parked: Working | None = None,
        on_error: OnError | None = None,
    ) -> A | Working:
        """The answer at the end of `steps`: now if they are taken `at_once`, else in `parked`. If a step of a
        job raises, `on_error` gets the exception (None: `parked` fails). The answer may be `parked` itself:
        it is completed later.

        `parked` is given as well where an earlier turn has returned it to the connection."""
        if at_once:
            answer = take_all(steps)
            if parked is None:
                return answer
            _complete(parked, answer)
            return parked
        working = parked or Working()
        self.run(_answering(steps, working), on_error or working.fail, working)
        return working

    def run(
        self, steps: Iterator[object], on_error: OnError, request: Working | None = None
    ) -> None:
        """Iterate over `steps`, beginning now. If a step raises, the job ends and `on_error` gets the
        exception. The time of the steps counts as that of `request`."""
        self.under_way += 1
        self._take_steps(steps, on_error, request or Working())

    def close(self) -> None:
        """Stop all jobs: no further step runs."""
        self._closed = True

    def _take_steps(self, steps: Iterator[object], on_error: OnError, request: Working) -> None:
        if self._closed:
            return
        now_ms = self._ports.clock.now_ms
        began_ms = now_ms()
        request.begin_turn(began_ms)
        until_ms = began_ms + SLICE_MS
        left = self._steps_max
        try:
            for _ in steps:
                left -= 1
                if not left or now_ms() >= until_ms:
                    again = partial(self._take_steps, steps, on_error, request)
                    self._ports.wakeups.call_soon(again)
                    return
        except Exception as error:  # noqa: BLE001 - a client waits for a response, whatever the error
            self.under_way -= 1
            on_error(error)
        else:
            self.under_way -= 1
        finally:
            request.end_turn(now_ms())  # what it waits for from now on is no work


def take_all(steps: Iterable[A | StepResult]) -> A:
    """Take all steps in this turn of the loop. Returns the answer at their end."""
    answer: A | StepResult = CONTINUES
    for step in steps:
        answer = step
    assert not isinstance(answer, StepResult), f"{steps} has no answer"
    return answer


def _answering(steps: Iterable[A | StepResult], parked: Working) -> Iterator[None]:
    """The steps of a job, and the answer at their end."""
    for last in steps:
        if not isinstance(last, StepResult):
            _complete(parked, last)
            return
        yield


def _complete(parked: Working, answer: Message | Parked | None) -> None:
    if not isinstance(answer, Parked):
        parked.complete(answer)
    if parked.holds:
        parked.release()
