"""AlterPartition: a leader asks for another ISR, and every rule that may refuse it.

Source: KIP-497, KIP-841, KIP-903 (broker epochs), KIP-704 (leader recovery); Kafka's
ReplicationControlManager.alterPartition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.controller.broker_epochs import check_epoch
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.controller.slicing import Steps, in_slices
from barnabas.metadata.image.topic import LEADER_UNCHANGED, ORDINARY, RECOVERED, RECOVERING, Topic
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
)
from barnabas.wire.messages.alter_partition_response import (
    AlterPartitionResponse,
)
from barnabas.wire.messages.alter_partition_response import PartitionData as PartitionResult
from barnabas.wire.messages.alter_partition_response import TopicData as TopicResult


class Refusal(NamedTuple):
    """The error and the reason of one partition's refused change."""

    code: ErrorCode
    reason: str


OnRefusal = Callable[[str, str, str], None]
"""Gets each refusal: the partition's name, the code's name and the reason. The response has only a
code."""
HoldBack = Callable[[Topic, int, int], str | None]
"""Gets topic, index and broker; returns why the broker may not join the ISR yet, or None."""

OnFall = Callable[[Topic, int, int], None]
"""Called when a broker leaves the ISR of (topic, index) because it fell behind."""


def alter_partition(
    cluster: ControllerContext,
    request: AlterPartitionRequest,
    on_refusal: OnRefusal = lambda partition, code, reason: None,
    hold_back: HoldBack = lambda topic, index, broker: None,
    on_fall: OnFall = lambda topic, index, broker: None,
) -> Decision[AlterPartitionResponse]:
    """One answer per partition. Raises STALE_BROKER_EPOCH for the whole request."""
    check_epoch(cluster, request.broker_id, request.broker_epoch)
    results: list[TopicResult] = []
    steps = _steps(cluster, request, results, on_refusal, hold_back, on_fall)
    names = [(t.topic_id, p.partition_index) for t in request.topics for p in t.partitions]
    return in_slices(cluster.bounds, names, steps, lambda: AlterPartitionResponse(topics=results))


def _steps(
    cluster: ControllerContext,
    request: AlterPartitionRequest,
    results: list[TopicResult],
    on_refusal: OnRefusal,
    hold_back: HoldBack,
    on_fall: OnFall,
) -> Steps:
    for wanted in request.topics:
        partitions: list[PartitionResult] = []
        results.append(TopicResult(topic_id=wanted.topic_id, partitions=partitions))
        for data in wanted.partitions:
            check_epoch(cluster, request.broker_id, request.broker_epoch)
            topic = cluster.image.topics_by_id.get(Uuid(wanted.topic_id))
            if topic is None:
                refusal: Refusal | PartitionChangeRecord | None = Refusal(
                    ErrorCode.UNKNOWN_TOPIC_ID, "the topic id is unknown"
                )
            else:
                refusal = _decide(cluster, request.broker_id, topic, data, hold_back)
            if isinstance(refusal, Refusal):
                name = f"{topic.name if topic else wanted.topic_id.hex()}-{data.partition_index}"
                on_refusal(name, refusal.code.name, refusal.reason)
                partitions.append(_refused(data, refusal))
                yield None
                continue
            assert topic is not None
            if refusal is not None:
                _note_falls(topic, data, refusal, on_fall)
            partitions.append(_changed(request.broker_id, topic, data, refusal))
            yield refusal


def _note_falls(
    topic: Topic, data: PartitionData, record: PartitionChangeRecord, on_fall: OnFall
) -> None:
    if record.isr is not None:
        for broker in topic.isr[data.partition_index]:
            if broker not in record.isr:
                on_fall(topic, data.partition_index, broker)


def _refused(data: PartitionData, refusal: Refusal) -> PartitionResult:
    return PartitionResult(partition_index=data.partition_index, error_code=refusal.code)


def _changed(
    broker: int, topic: Topic, data: PartitionData, record: PartitionChangeRecord | None
) -> PartitionResult:
    """The partition's state once the record is committed."""
    index = data.partition_index
    leader, leader_epoch = topic.leader[index], topic.leader_epoch[index]
    isr = topic.isr[index]
    recovery = topic.rare.get(index, ORDINARY).recovery
    epoch = topic.partition_epoch[index]
    if record is not None:
        epoch += 1
        isr = tuple(record.isr) if record.isr is not None else isr
        if record.leader_recovery_state >= 0:
            recovery = record.leader_recovery_state
        if record.leader != LEADER_UNCHANGED:
            leader, leader_epoch = record.leader, leader_epoch + 1
            if leader != broker:
                # The change ended a reassignment and with it this leader's term: it must learn
                # that from the metadata before it asks again.
                return PartitionResult(
                    partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED
                )
    return PartitionResult(
        partition_index=index,
        leader_id=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        leader_recovery_state=recovery,
        partition_epoch=epoch,
    )


def _decide(
    cluster: ControllerContext, broker: int, topic: Topic, data: PartitionData, hold_back: HoldBack
) -> Refusal | PartitionChangeRecord | None:
    states = _states(data)
    refusal = check_change(cluster, broker, topic, data, states)
    if refusal is not None:
        return refusal
    index = data.partition_index
    for state in states:
        if state.broker_id not in topic.isr[index]:
            held = hold_back(topic, index, state.broker_id)
            if held is not None:
                return Refusal(ErrorCode.INELIGIBLE_REPLICA, held)
    change = PartitionChangeBuilder(cluster, topic, index, _reason(broker, topic, index, states))
    change.isr = tuple([state.broker_id for state in states])
    change.recovery = data.leader_recovery_state
    change.asked_by_leader = True
    return change.build()


def _states(data: PartitionData) -> list[BrokerState]:
    """The members that the leader asks for. Version 2 has ids only; an epoch of -1 is not
    checked."""
    if data.new_isr_with_epochs:
        return list(data.new_isr_with_epochs)
    return [BrokerState(broker_id=broker, broker_epoch=-1) for broker in data.new_isr]


def _reason(broker: int, topic: Topic, index: int, states: list[BrokerState]) -> str:
    before = topic.isr[index]
    after = [state.broker_id for state in states]
    joined = [b for b in after if b not in before]
    left = [b for b in before if b not in after]
    parts = []
    if joined:
        parts.append(f"{joined} caught up")
    if left:
        parts.append(f"{left} fell behind")
    return f"leader {broker}: {' and '.join(parts) or 'recovered'}"


def check_change(
    cluster: ControllerContext,
    broker: int,
    topic: Topic,
    data: PartitionData,
    states: list[BrokerState],
) -> Refusal | None:
    """Check every fencing rule; None if the change may be made."""
    index = data.partition_index
    if not topic.has(index):
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    return (
        _check_epochs(broker, topic, data)
        or _check_isr(topic, data, states)
        or _check_members(cluster, topic, index, states)
    )


def _check_epochs(broker: int, topic: Topic, data: PartitionData) -> Refusal | None:
    index = data.partition_index
    leader, leader_epoch = topic.leader[index], topic.leader_epoch[index]
    partition_epoch = topic.partition_epoch[index]
    if data.leader_epoch > leader_epoch or data.partition_epoch > partition_epoch:
        return Refusal(
            ErrorCode.NOT_CONTROLLER,
            f"the leader knows epochs ({data.leader_epoch}, {data.partition_epoch}) above"
            f" ({leader_epoch}, {partition_epoch}): there is another controller",
        )
    if data.leader_epoch < leader_epoch:
        return Refusal(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"the leader epoch is {leader_epoch}, not {data.leader_epoch}",
        )
    if broker != leader:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{leader} leads the partition, not {broker}")
    if data.partition_epoch < partition_epoch:
        return Refusal(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"the partition epoch is {partition_epoch}, not {data.partition_epoch}",
        )
    return None


def _check_isr(topic: Topic, data: PartitionData, states: list[BrokerState]) -> Refusal | None:
    index = data.partition_index
    replicas, leader = topic.replicas[index], topic.leader[index]
    isr = [state.broker_id for state in states]
    if not isr or len(set(isr)) != len(isr) or any(b not in replicas for b in isr):
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"ISR {isr} is not a set of the replicas {list(replicas)}"
        )
    if leader not in isr:
        return Refusal(ErrorCode.INVALID_REQUEST, f"ISR {isr} lacks the leader {leader}")
    state = data.leader_recovery_state
    if state not in (RECOVERED, RECOVERING):
        return Refusal(ErrorCode.INVALID_REQUEST, f"{state} is no leader recovery state")
    if state == RECOVERING and len(isr) > 1:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"ISR {isr} has followers while the leader recovers"
        )
    if state == RECOVERING and topic.rare.get(index, ORDINARY).recovery == RECOVERED:
        return Refusal(ErrorCode.INVALID_REQUEST, "a recovered leader cannot go back to recovering")
    return None


def _check_members(
    cluster: ControllerContext, topic: Topic, index: int, states: list[BrokerState]
) -> Refusal | None:
    why = []
    replicas, directories = topic.replicas[index], topic.directories[index]
    offline = cluster.offline_replicas.get((topic.id, index), ())
    for state in states:
        broker = state.broker_id
        known = cluster.image.brokers.get(broker)
        if known is None:
            why.append(f"{broker} is not registered")
        elif broker in cluster.departing:
            why.append(f"{broker} is leaving: {cluster.departing[broker]}")
        elif known.in_controlled_shutdown:
            why.append(f"{broker} is shutting down")
        elif known.fenced:
            why.append(f"{broker} is fenced")
        elif state.broker_epoch != -1 and state.broker_epoch != known.epoch:
            why.append(f"{broker} has broker epoch {known.epoch}, not {state.broker_epoch}")
        elif broker in offline or not known.has_directory(directories[replicas.index(broker)]):
            why.append(f"{broker} lost the log directory of its replica")
    return Refusal(ErrorCode.INELIGIBLE_REPLICA, "; ".join(why)) if why else None
