"""Describes a change of a partition in words.

Source: the terms of Kafka's controller log (KIP-455, KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metadata.image.partition_states import NEW, state_of
from barnabas.metadata.image.topic import NO_LEADER, PartitionState


def words_of(before: PartitionState | None, after: PartitionState) -> str:
    """The change between two states of one partition; `before` is None if it was created."""
    if before is None:
        leader = "without a leader" if after.leader == NO_LEADER else f"led by {after.leader}"
        return f"created, {leader}"
    parts = [*_leader(before, after), *_members(before, after), *_assignment(before, after)]
    if before.recovery and not after.recovery:
        parts.append(f"leader {after.leader} has recovered")
    if not parts and before.elr != after.elr:
        parts.append(f"eligible to lead are {_list(after.elr)}")
    if not parts and before.directories != after.directories:
        parts.append("log directories were assigned")
    return ", ".join(parts)


def _leader(before: PartitionState, after: PartitionState) -> list[str]:
    if before.leader == after.leader:
        return []
    if after.leader == NO_LEADER:
        return ["went offline"]
    if before.leader != NO_LEADER:
        return [f"leader moved from {before.leader} to {after.leader}"]
    was = state_of(before.leader, before.leader_epoch)
    return [f"{'first' if was == NEW else 'back'} online, led by {after.leader}"]


def _members(before: PartitionState, after: PartitionState) -> list[str]:
    left = [broker for broker in before.isr if broker not in after.isr]
    joined = [broker for broker in after.isr if broker not in before.isr]
    if joined == [after.leader] and before.leader == NO_LEADER:
        joined = []  # an elected leader is always in the ISR
    reported = [f"{_list(left)} left the ISR"] if left else []
    return [*reported, f"{_list(joined)} joined the ISR"] if joined else reported


def _assignment(before: PartitionState, after: PartitionState) -> list[str]:
    if after.reassigning and (before.adding, before.removing) != (after.adding, after.removing):
        target = [broker for broker in after.replicas if broker not in after.removing]
        return [f"reassignment to {_list(target)} began"]
    if before.reassigning and not after.reassigning:
        return [f"reassignment ended with replicas {_list(after.replicas)}"]
    if before.replicas != after.replicas:
        return [f"replicas are {_list(after.replicas)} now"]
    return []


def _list(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
