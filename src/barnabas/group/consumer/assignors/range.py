"""The assignor `range`: it cuts each topic into ranges, one per subscriber, and moves few
partitions.

A member of topics with equal numbers of partitions gets the same partition numbers of each, as
joins need it. Source: ``RangeAssignor`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from barnabas.group.consumer.assignors.spec import WORK_PER_STEP, GroupSpec, Steps, Targets
from barnabas.types import Uuid


def assign_range(spec: GroupSpec) -> Steps:
    """Compute a target for every member, one topic with each step."""
    targets: Targets = {member_id: {} for member_id in spec.subscriptions}
    subscribers = spec.subscribers()
    work = 0
    for topic_id in sorted(subscribers):
        work += spec.partitions[topic_id]
        if work > WORK_PER_STEP:
            yield
            work = 0
        for member_id, partitions in _cut(spec, topic_id, subscribers[topic_id]).items():
            if partitions:
                targets[member_id][topic_id] = frozenset(partitions)
    return targets


def _cut(spec: GroupSpec, topic_id: Uuid, members: list[str]) -> dict[str, list[int]]:
    """The partitions of one topic by member."""
    count = spec.partitions[topic_id]
    quota, extra = divmod(count, len(members))
    shares: dict[str, list[int]] = {}
    unfilled: list[str] = []
    for member_id in members:
        had = sorted(spec.previous.get(member_id, {}).get(topic_id, ()))
        had = [partition for partition in had if partition < count]
        shares[member_id] = had[:quota]
        if len(had) > quota and extra:
            extra -= 1
            shares[member_id] = had[: quota + 1]
        else:
            unfilled.append(member_id)
    kept = {partition for share in shares.values() for partition in share}
    free = iter([partition for partition in range(count) if partition not in kept])
    for member_id in unfilled:
        room = quota - len(shares[member_id])
        if extra:
            extra -= 1
            room += 1
        shares[member_id] += [partition for _, partition in zip(range(room), free)]
    return shares
