"""ElectLeaders: elections that a client requests (KIP-460), preferred or unclean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions import elections
from barnabas.controller.partitions.elections import Elected
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.controller.slicing import in_pieces
from barnabas.metadata.image.topic import NO_LEADER, Topic
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest
from barnabas.wire.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from barnabas.wire.schema import Message

PREFERRED, UNCLEAN = 0, 1


def undecided(cluster: ControllerContext, request: ElectLeadersRequest) -> list[int]:
    """The keys of partitions that several replicas could lead uncleanly: their log ends have to be
    asked first."""
    if request.election_type != UNCLEAN:
        return []
    keys = []
    for name, indexes in _asked(cluster, request):
        topic = cluster.image.topics_by_name.get(name)
        for index in indexes:
            if topic is None or not topic.has(index) or topic.leader[index] != NO_LEADER:
                continue
            change = PartitionChangeBuilder(cluster, topic, index)
            change.unclean_allowed = True
            if change.forecast().recover:
                keys.append(topic.slot << 32 | index)
    return keys


def elect_leaders(
    cluster: ControllerContext,
    request: ElectLeadersRequest,
    answers: Mapping[int, Mapping[int, tuple[int, int]]] | None = None,
) -> Decision[ElectLeadersResponse]:
    """One answer per named partition; if all were asked for, an answer for each partition for which
    something had to be done. `answers` has the log ends (epoch, offset) of replicas of undecided
    partitions, by key.

    Raises INVALID_REQUEST for an unknown election type.
    """
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        )
    results: list[tuple[str, list[PartitionResult]]] = []

    def elect_part(name: str, indexes: Sequence[int]) -> list[Message]:
        """Elect for some partitions of the present topic."""
        records, partitions = _elect_some(cluster, request, name, indexes, answers or {})
        results[-1][1].extend(partitions)
        return records

    def asked() -> Iterator[tuple[str, Sequence[int]]]:
        for name, indexes in _asked(cluster, request):
            results.append((name, []))
            yield name, indexes

    def answer() -> ElectLeadersResponse:
        return ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(topic=name, partition_result=found) for name, found in results
            ]
        )

    def pieces() -> Iterator[Decision[None]]:
        records: list[Message] = []
        looked, most = 0, cluster.bounds.slice_max
        for name, indexes in asked():
            for start in range(0, max(len(indexes), 1), most):
                part = indexes[start : start + most]
                records += elect_part(name, part)
                looked += max(len(part), 1)
                if looked >= cluster.bounds.scanned_per_slice or len(records) >= most:
                    yield Decision(None, records)
                    records, looked = [], 0
        yield Decision(None, records)

    return in_pieces(pieces(), answer, at_once=_are_few(cluster, request))


def _are_few(cluster: ControllerContext, request: ElectLeadersRequest) -> bool:
    left = cluster.bounds.inline_max
    for _, indexes in _asked(cluster, request):
        left -= len(indexes)
        if left < 0:
            return False
    return True


def _elect_some(
    cluster: ControllerContext,
    request: ElectLeadersRequest,
    name: str,
    indexes: Sequence[int],
    answers: Mapping[int, Mapping[int, tuple[int, int]]],
) -> tuple[list[Message], list[PartitionResult]]:
    topic = cluster.image.topics_by_name.get(name)
    records: list[Message] = []
    partitions = []
    for index in indexes:
        if request.topic_partitions is None and topic is not None:
            # All were asked for: pass quickly over partitions that need nothing.
            leader = topic.leader[index]
            if leader >= 0 and (request.election_type or leader == topic.replicas[index][0]):
                continue
        try:
            records.append(elect(cluster, name, topic, index, request.election_type, answers))
            partitions.append(PartitionResult(partition_id=index, error_message=None))
        except KafkaError as error:
            partitions.append(
                PartitionResult(
                    partition_id=index, error_code=error.code, error_message=error.message
                )
            )
    return records, partitions


def _asked(
    cluster: ControllerContext, request: ElectLeadersRequest
) -> Iterator[tuple[str, Sequence[int]]]:
    if request.topic_partitions is None:
        for topic in list(cluster.image.topics_by_name.values()):
            yield topic.name, range(len(topic))
    else:
        for asked in request.topic_partitions:
            yield asked.topic, asked.partitions


def elect(
    cluster: ControllerContext,
    name: str,
    topic: Topic | None,
    index: int,
    kind: int,
    answers: Mapping[int, Mapping[int, tuple[int, int]]],
) -> PartitionChangeRecord:
    """The record of one designated election. Raises KafkaError with the reason if there is none."""
    if topic is None or not topic.has(index):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
        )
    leader = topic.leader[index]
    first = topic.replicas[index][0]
    if kind == PREFERRED and leader == first:
        raise KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, f"Leader {leader} is the preferred one already."
        )
    if kind == UNCLEAN and leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {leader} leads the partition.")
    reported = answers.get(topic.slot << 32 | index, {})
    strategy = partial(
        elections.designated,
        unclean=kind == UNCLEAN,
        further=lambda broker: reported.get(broker, (-1, -1)),
    )
    change = PartitionChangeBuilder(cluster, topic, index, "asked for by ElectLeaders", strategy)
    record = change.build()
    elected = change.elected
    if record is None or elected is None or elected.leader in (NO_LEADER, leader):
        why = _why_not_preferred(change, first) if kind == PREFERRED else _why(elected)
        code = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if kind == PREFERRED
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        raise KafkaError(code, why)
    return record


def _why(elected: Elected | None) -> str:
    return f"No replica can lead: {elected.reason if elected else 'none is available'}."


def _why_not_preferred(change: PartitionChangeBuilder, first: int) -> str:
    isr = change.topic.isr[change.index]
    if first not in isr:
        return f"The preferred leader {first} is not in the ISR {list(isr)}."
    return f"The preferred leader {first} is not available."
