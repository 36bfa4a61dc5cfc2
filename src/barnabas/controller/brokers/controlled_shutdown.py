"""Decides what a broker announces: that it leaves, or that some of its log directories failed.

A broker may have tens of thousands of replicas. A few are decided at once, together with the record
that fences the broker or removes its directories. Many are decided in steps before that record. If
this controller ceases to be active meanwhile, the broker repeats its announcement to the next one,
which does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from barnabas.controller.decision import Decision, Record
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.leader_and_isr import (
    fence_change,
    fence_records,
    isr_updates,
    partitions_leaders_first,
    replicas_of,
)
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.types import Uuid

R = TypeVar("R")


def fence_on_request(
    cluster: ControllerContext, known: BrokerRegistration, reason: str, response: R
) -> Decision[R]:
    """Remove the broker from every ISR and fence it; `response` answers when that is done."""
    if cluster.image.replicas_on(known.id) <= cluster.bounds.inline_max:
        return Decision(response, fence_records(cluster, [known], reason), reason)
    cluster.departing[known.id] = reason

    def steps() -> Iterator[Decision[None]]:
        now = _present(cluster, known)
        if now is not None and not now.fenced:
            cluster.departing[known.id] = reason  # earlier work may have ended it
        for keys in partitions_leaders_first(cluster, known.id):
            yield Decision(None, list(isr_updates(cluster, keys, reason)))

    def fence(at: ControllerContext) -> Decision[R]:
        at.departing.pop(known.id, None)
        now = _present(at, known)
        if now is None or now.fenced:
            return Decision(response)
        return Decision(response, [fence_change(now, reason)], reason)

    return Decision(response, work=steps(), then=fence)


def lose_directories(
    cluster: ControllerContext,
    known: BrokerRegistration,
    lost: Sequence[Uuid],
    change: BrokerRegistrationChangeRecord,
    decision: Decision[R],
) -> None:
    """Remove replicas in the `lost` directories from ISRs and leaderships; then `change` removes
    the directories. The records follow those of `decision`."""
    reason = change.reason or ""
    steps = _lost_in_steps(cluster, known, lost, reason)
    if (
        decision.work is not None
        or cluster.image.replicas_on(known.id) <= cluster.bounds.inline_max
    ):
        updates = [record for records in steps for record in records]
        decision.records = [*decision.records, *updates, change]
        return

    def forget(at: ControllerContext) -> Decision[R]:
        return Decision(decision.response, [change] if _present(at, known) else [], reason)

    decision.continue_with((Decision(None, records) for records in steps), forget)


def _lost_in_steps(
    cluster: ControllerContext, known: BrokerRegistration, lost: Sequence[Uuid], reason: str
) -> Iterator[list[Record]]:
    slots = cluster.image.slots
    for step in replicas_of(cluster, known.id):
        keys = []
        for key in step:
            topic, index = slots[key >> 32], key & 0xFFFFFFFF
            if topic is not None and known.id in topic.replicas[index]:
                if topic.directories[index][topic.replicas[index].index(known.id)] in lost:
                    keys.append(key)
        with cluster.leaving([known.id], reason):
            yield list(isr_updates(cluster, keys, reason))


def _present(at: ControllerContext, known: BrokerRegistration) -> BrokerRegistration | None:
    """The broker's registration, if it is still that of the same incarnation."""
    now = at.image.brokers.get(known.id)
    return now if now is not None and now.epoch == known.epoch else None
