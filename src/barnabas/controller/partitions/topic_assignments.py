"""Replica assignments of new partitions: chosen by placement, or named in the request and checked.

Source: KIP-4, KIP-1066; Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barnabas.controller.atomic_batch import RECORDS_MAX
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.placement import UsableBroker, placing
from barnabas.metadata.features import DIRECTORIES_SINCE
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.ports import Rng
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError


class Assignment(NamedTuple):
    """Replicas and first ISR of one new partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Placement(NamedTuple):
    """The number of partitions, the replication factor and the assignments of a new topic."""

    partitions: int
    factor: int
    assignments: Iterable[Assignment]


def place_partitions(
    cluster: ControllerContext, count: int, factor: int, rng: Rng
) -> Iterator[Assignment]:
    """Assignments of `count` partitions to usable brokers, made lazily. Raises INVALID_REPLICATION_FACTOR,
    INVALID_PARTITIONS, and POLICY_VIOLATION if one request cannot create so many."""
    if count > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {count}, at most {RECORDS_MAX}.",
        )
    try:
        placed = placing(usable_brokers(cluster), count, factor, rng)
    except KafkaError as error:
        raise KafkaError(
            error.code, f"Unable to replicate the partition {factor} time(s): {error.message}"
        ) from error
    active = cluster.active_brokers()
    # Each assignment has an active broker: without one, `placing` raises.
    return (_assignment(replicas, active) for replicas in placed)


def _assignment(replicas: Sequence[int], active: Mapping[int, None]) -> Assignment:
    return Assignment(tuple(replicas), tuple([b for b in replicas if b in active]))


def usable_brokers(cluster: ControllerContext) -> list[UsableBroker]:
    """The brokers that may get new replicas: those with a log directory that is not cordoned."""
    return [
        UsableBroker(broker.id, broker.rack, not cluster.is_active(broker.id))
        for broker in (cluster.image.brokers[b] for b in sorted(cluster.image.brokers))
        if not is_cordoned(cluster, broker.id)
    ]


def is_cordoned(cluster: ControllerContext, broker: int) -> bool:
    """Whether every log directory of the broker is cordoned: it gets no new replicas (KIP-1066)."""
    known = cluster.image.brokers[broker]
    return bool(known.cordoned) and all(d in known.cordoned for d in known.directories)


def manual_assignment(
    cluster: ControllerContext, index: int, replicas: tuple[int, ...]
) -> Assignment:
    """A requested assignment with its ISR: the active replicas. Raises INVALID_REPLICA_ASSIGNMENT if none is
    active."""
    assignment = _assignment(replicas, cluster.active_brokers())
    if not assignment.isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are"
            " fenced or in controlled shutdown.",
        )
    return assignment


def check_assignment(
    cluster: ControllerContext, replicas: Sequence[int], factor: int | None
) -> None:
    """Check a requested assignment: registered brokers, none twice, `factor` of them.

    Raises INVALID_REPLICA_ASSIGNMENT.
    """
    problem = None
    if not replicas:
        problem = "The manual partition assignment includes an empty replica list."
    for broker in sorted(replicas):
        if broker not in cluster.image.brokers:
            problem = problem or (
                f"The manual partition assignment includes broker {broker}, but no such broker is"
                " registered."
            )
        elif list(replicas).count(broker) > 1:
            problem = problem or (
                f"The manual partition assignment includes the broker {broker} more than once."
            )
    if problem is None and factor is not None and len(replicas) != factor:
        problem = (
            f"The manual partition assignment includes a partition with {len(replicas)}"
            f" replica(s), but this is not consistent with previous partitions, which have"
            f" {factor} replica(s)."
        )
    if problem:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def partition_record(
    cluster: ControllerContext, topic_id: Uuid, index: int, assignment: Assignment
) -> PartitionRecord:
    """The record of a new partition; its first live replica leads."""
    replicas = assignment.replicas
    with_directories = cluster.image.metadata_version >= DIRECTORIES_SINCE
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=assignment.isr,
        leader=assignment.isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[cluster.default_directory(b) for b in replicas] if with_directories else (),
    )
