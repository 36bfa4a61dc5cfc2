"""The tagged fields of Barnabas in DescribeCluster, as a broker in ZooKeeper mode answers them.

``EventsAfter``: the steps of its controllers with a higher number than this (-1: all that it remembers).
``RefusalsAfter``: the requests that they refused, likewise. ``StatesOf``: the states of the partitions and
replicas of these topics, if this broker is the controller.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.controller.active.refusals import Refusals
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import (
    ControllerEvent,
    ControllerRefusal,
    DescribeClusterResponse,
    SubjectState,
)
from barnabas.zookeeper.states.state_book import StateBook

NOT_ASKED = -2
"""Value of the fields in requests of clients that do not know them."""


def asks_for_fields(request: DescribeClusterRequest) -> bool:
    return (
        request.events_after != NOT_ASKED
        or request.refusals_after != NOT_ASKED
        or bool(request.states_of)
    )


def add_fields(
    request: DescribeClusterRequest,
    response: DescribeClusterResponse,
    book: StateBook,
    refusals: Refusals,
    *,
    is_controller: bool,
) -> None:
    """Add to `response` what `request` asks for."""
    if request.events_after != NOT_ASKED:
        response.events = [
            ControllerEvent(
                number=step.number, at_ms=step.at_ms, kind=step.kind, subject=step.subject,
                change=step.change, reason=step.reason,
            )
            for step in book.steps.after(request.events_after)
        ]  # fmt: skip
    if request.refusals_after != NOT_ASKED:
        response.refusals = [
            ControllerRefusal(
                number=note.number, at_ms=note.at_ms, subject=note.subject, code=note.code,
                reason=note.reason,
            )
            for note in refusals.after(request.refusals_after)
        ]  # fmt: skip
    if is_controller:
        response.states = [one for name in request.states_of for one in _states(book, name)]


def _states(book: StateBook, topic: str) -> Iterable[SubjectState]:
    for result in book.states_of(topic):
        state, reason, at_ms = result.entry
        yield SubjectState(
            topic=result.topic, partition=result.partition, replica=result.replica, state=state,
            reason=reason, at_ms=at_ms,
        )  # fmt: skip
