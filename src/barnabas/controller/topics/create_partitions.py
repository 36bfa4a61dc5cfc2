"""Adds partitions to topics.

Internal topics of coordinators keep their number of partitions: a group's offsets, or a
transactional id's state, are in the partition that is the hash of the name modulo that number, and
nothing would move them.

Source: KIP-195, KIP-599; Kafka's ReplicationControlManager.createPartitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from barnabas.controller.atomic_batch import AtomicBatchBuilder, BatchItem
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.topic_assignments import (
    Assignment,
    check_assignment,
    manual_assignment,
    partition_record,
    place_partitions,
)
from barnabas.controller.topics.create_topics import check_named_once
from barnabas.ports import Rng
from barnabas.security.quotas.mutation_quota import UNCOUNTED, MutationQuota
from barnabas.types import COORDINATOR_TOPICS, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from barnabas.wire.schema import Message


def create_partitions(
    cluster: ControllerContext,
    request: CreatePartitionsRequest,
    rng: Rng,
    quota: MutationQuota = UNCOUNTED,
) -> Decision[CreatePartitionsResponse]:
    """One answer per topic, in the order asked."""
    asked = Counter(topic.name for topic in request.topics)

    def part(wanted: CreatePartitionsTopic) -> BatchItem:
        present = len(cluster.image.topics_by_name.get(wanted.name, ()))

        def read_set() -> tuple[Uuid, int] | None:
            topic = cluster.image.topics_by_name.get(wanted.name)
            return None if topic is None else (topic.id, len(topic))

        def decide() -> tuple[CreatePartitionsTopicResult, Iterator[Message]]:
            check_named_once(asked, wanted.name)
            records = _grow(cluster, wanted, rng, quota)
            return CreatePartitionsTopicResult(name=wanted.name), records

        def refuse(error: KafkaError) -> CreatePartitionsTopicResult:
            return CreatePartitionsTopicResult(
                name=wanted.name, error_code=error.code, error_message=error.message or None
            )

        return BatchItem(max(wanted.count - present, 1), decide, refuse, read_set)

    parts = [part(wanted) for wanted in {topic.name: topic for topic in request.topics}.values()]
    return AtomicBatchBuilder(
        cluster,
        parts,
        lambda results: CreatePartitionsResponse(results=results),
        validate_only=request.validate_only,
    ).decision()


def _grow(
    cluster: ControllerContext, wanted: CreatePartitionsTopic, rng: Rng, quota: MutationQuota
) -> Iterator[Message]:
    topic = cluster.image.topics_by_name.get(wanted.name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"This server has no topic '{wanted.name}'."
        )
    present = len(topic)
    if wanted.count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.count < present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would"
            " not be an increase.",
        )
    if wanted.name in COORDINATOR_TOPICS:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, _kept(wanted.name, present))
    additional = wanted.count - present
    factor = len(topic.replicas[0])
    if wanted.assignments is None:
        assignments: Iterable[Assignment] = place_partitions(cluster, additional, factor, rng)
    else:
        assignments = _grown_manually(cluster, wanted, present, additional, factor)
    quota.admit(wanted.name, additional)
    return (
        partition_record(cluster, topic.id, present + i, assignment)
        for i, assignment in enumerate(assignments)
    )


def _kept(name: str, present: int) -> str:
    """The message for a coordinators' topic that does not grow, with the way out."""
    return (
        f"{name} keeps its {present} partitions: the state of a name is in the partition that the hash of the"
        f" name gives, modulo {present}, and would be lost to it; to have another number, delete the topic,"
        " with all its state, and create it again: 'The partitions of internal topics' in docs/operations.md"
        " says how groups keep their offsets"
    )


def _grown_manually(
    cluster: ControllerContext,
    wanted: CreatePartitionsTopic,
    present: int,
    additional: int,
    factor: int,
) -> list[Assignment]:
    given = wanted.assignments or ()
    if len(given) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(given)}"
            " assignment(s) were specified.",
        )
    assignments = []
    for i, one in enumerate(given):
        replicas = tuple(one.broker_ids)
        check_assignment(cluster, replicas, factor)
        assignments.append(manual_assignment(cluster, present + i, replicas))
    return assignments
