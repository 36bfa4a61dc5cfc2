"""The next requests of an API are answered with an error, late or never.

A request that fails is not handled. One that is answered late or never is handled at once, or not at all
where its plan says so. Answers of a connection go in the order of its requests: after a request without an
answer it gives no other one, until its client ends it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from barnabas.ports import Ports
from barnabas.wire.dispatch import ApiEntry, Handler
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked, RequestContext, Working
from barnabas.wire.schema import Message

ERROR, LATE, NEVER = "error", "late", "never"
T = TypeVar("T")


class PlannedAnswer(NamedTuple):
    """The answer that the next requests of one API get."""

    outcome: str
    """`ERROR`, `LATE` or `NEVER`."""
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    wait_ms: float = 0.0
    """How much later than it would be the answer is sent."""
    client_id: str | None = None
    """The client whose requests count; None: those of all clients."""
    is_handled: bool = True


class RequestFaults:
    """The plans of a node; `guard` makes its handlers follow them."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._plans: dict[int, list[int]] = {}
        """The ids of an API's plans that are not used up, the oldest first."""
        self._by_id: dict[int, PlannedAnswer] = {}
        self._left: dict[int, int] = {}
        self._ids = itertools.count(1)

    def plan(self, key: int, times: int, answer: PlannedAnswer) -> int:
        """The next `times` requests of the API get `answer`. Returns the plan's id."""
        number = next(self._ids)
        self._by_id[number], self._left[number] = answer, times
        self._plans.setdefault(key, []).append(number)
        return number

    def left(self, number: int) -> int:
        """How many requests of the plan are still to come."""
        return self._left[number]

    def clear(self) -> None:
        """Requests are answered as usual again; plans count as used up."""
        self._plans.clear()
        self._left = dict.fromkeys(self._left, 0)

    def guard(self, entry: ApiEntry) -> Handler:
        """The handler of `entry`, which follows the plans."""
        handle, key = entry.handle, int(entry.api.key)

        def follow(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
            if key not in self._plans:
                return handle(request, ctx, role)
            answer = self._take(key, ctx)
            if answer is None:
                return handle(request, ctx, role)
            if answer.outcome == ERROR:
                raise KafkaError(answer.error, answer.message)
            result: Message | Parked | None = Parked()
            if answer.is_handled:
                result = handle(request, ctx, role)
            return self._later(result, answer)

        return follow

    def _take(self, key: int, ctx: RequestContext) -> PlannedAnswer | None:
        for number in self._plans[key]:
            answer = self._by_id[number]
            if answer.client_id not in (None, ctx.client_id):
                continue
            self._left[number] -= 1
            if not self._left[number]:
                self._plans[key].remove(number)
                if not self._plans[key]:
                    del self._plans[key]
            return answer
        return None

    def _later(self, result: Message | Parked | None, answer: PlannedAnswer) -> Parked | None:
        if result is None:
            return None
        if answer.outcome == NEVER:
            return Parked()
        if isinstance(result, Working):
            working = Working(holds=result.holds)
            result.attach(self._delayed(working.complete, answer))
            result.watch(working.release, self._delayed(working.fail, answer))
            return working
        parked = Parked()
        send = self._delayed(parked.complete, answer)
        if isinstance(result, Parked):
            result.attach(send)
        else:
            send(result)
        return parked

    def _delayed(self, then: Callable[[T], object], answer: PlannedAnswer) -> Callable[[T], None]:
        """Calls `then` as much later as `answer` says."""

        def later(outcome: T) -> None:
            at_ms = self._ports.clock.now_ms() + answer.wait_ms
            self._ports.wakeups.call_at(at_ms, lambda: _tell(then, outcome))

        return later


def _tell(then: Callable[[T], object], outcome: T) -> None:
    then(outcome)
