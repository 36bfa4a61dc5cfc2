"""The ends that a broker announces: of its service, or of some of its log directories.

A broker may hold tens of thousands of replicas. Few are decided at once, together with the record that
fences the broker or forgets its directories; many in steps, before that record: should this controller
cease to be active on the way, the broker says the same to the next one, which does the rest.
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
    """The broker leaves every ISR and is fenced; then `response` is the answer."""
    if cluster.image.replicas_on(known.id) <= cluster.bounds.inline_max:
        return Decision(response, fence_records(cluster, [known], reason), reason)
    cluster.departing[known.id] = reason

    def steps() -> Iterator[Decision[None]]:
        now = _present(cluster, known)
        if now is not None and not now.fenced:
            cluster.departing[known.id] = reason  # also where other work that went before ended it
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
    """Replicas in the `lost` directories leave ISR and leadership, and then `change` says that the
    directories are gone. The records follow those that are already decided."""
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
