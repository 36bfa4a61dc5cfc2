"""Reassigns replicas: begin, list, cancel (KIP-455).

A reassignment adds the new replicas to the assignment at once, waits until all of them are in the
ISR, and then removes the old ones. The last step is part of the change that makes it possible
(:mod:`~barnabas.controller.partitions.partition_change`), so the partition's state is enough, and
the controller may change at any step.

Source: KIP-455, KIP-1047 (replication factor); Kafka's PartitionReassignmentReplicas and -Revert.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions import elections
from barnabas.controller.partitions.elections import Elected, Electorate
from barnabas.controller.partitions.log_ends import LogEndQuery, most_advanced
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.controller.partitions.topic_assignments import check_assignment, is_cordoned
from barnabas.controller.slicing import Steps, in_slices
from barnabas.metadata.image.topic import NO_LEADER, ORDINARY, Replicas, Topic
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from barnabas.wire.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from barnabas.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from barnabas.wire.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class ReassignmentPlan(NamedTuple):
    """The assignment during a reassignment: the target's replicas first, then those to remove."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas


def plan(
    replicas: Replicas, adding: Replicas, arrived: Replicas, target: Replicas
) -> ReassignmentPlan:
    """The assignment during a reassignment from the present `replicas` to `target`; `adding` are
    those of `replicas` that an earlier reassignment adds. Replicas that have not `arrived` and are
    no longer wanted are removed at once (KIP-455): later nothing would show that they were not
    original replicas."""
    original = [broker for broker in replicas if broker not in adding]
    known = [broker for broker in replicas if broker in original or broker in arrived]
    leaving = tuple(sorted(broker for broker in known if broker not in target))
    coming = tuple(sorted(broker for broker in target if broker not in original))
    return ReassignmentPlan(target + leaving, coming, leaving)


def alter_reassignments(
    cluster: ControllerContext,
    request: AlterPartitionReassignmentsRequest,
    answers: Mapping[int, LogEndQuery] | None = None,
) -> Decision[AlterPartitionReassignmentsResponse]:
    """One answer per partition; a request without replicas cancels. `answers` has the log ends of
    replicas of `undecided` partitions, by key."""
    responses: list[ReassignableTopicResponse] = []

    def respond() -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            error_message=None,
            responses=responses,
            allow_replication_factor_change=request.allow_replication_factor_change,
        )

    names = [
        (wanted.name, p.partition_index) for wanted in request.topics for p in wanted.partitions
    ]
    return in_slices(
        cluster.bounds, names, _steps(cluster, request, answers or {}, responses), respond
    )


def _steps(
    cluster: ControllerContext,
    request: AlterPartitionReassignmentsRequest,
    answers: Mapping[int, LogEndQuery],
    responses: list[ReassignableTopicResponse],
) -> Steps:
    for wanted in request.topics:
        partitions: list[ReassignablePartitionResponse] = []
        responses.append(ReassignableTopicResponse(name=wanted.name, partitions=partitions))
        for target in wanted.partitions:
            topic = cluster.image.topics_by_name.get(wanted.name)
            record = None
            answer = ReassignablePartitionResponse(
                partition_index=target.partition_index, error_message=None
            )
            try:
                index = target.partition_index
                if topic is None or not topic.has(index):
                    raise KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"Unable to find partition {wanted.name}:{index}.",
                    )
                record = (
                    cancel(cluster, topic, index, answers.get(topic.slot << 32 | index))
                    if target.replicas is None
                    else begin(cluster, topic, target, request.allow_replication_factor_change)
                )
            except KafkaError as error:
                answer.error_code = error.code
                answer.error_message = error.message or error.code.name
            partitions.append(answer)
            yield record


def begin(
    cluster: ControllerContext,
    topic: Topic,
    target: ReassignablePartition,
    allow_factor_change: bool,
) -> PartitionChangeRecord | None:
    """Begin to move to the target, or finish at once if nothing has to be copied.

    Raises INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR.
    """
    index = target.partition_index
    wanted = tuple(target.replicas or ())
    check_assignment(cluster, wanted, None)
    rare = topic.rare.get(index, ORDINARY)
    replicas = topic.replicas[index]
    factor = len(replicas) - len(rare.removing)  # the target's, if a reassignment is under way
    if not allow_factor_change and len(wanted) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(wanted)}",
        )
    # An eligible replica may be the only complete one. With neither ISR nor ELR any replica may be it.
    arrived = (*topic.isr[index], *rare.elr) or replicas
    new = plan(replicas, rare.adding, arrived, wanted)
    cordoned = [broker for broker in new.adding if is_cordoned(cluster, broker)]
    if cordoned:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Brokers {cordoned} take no new replicas: all their log directories are cordoned.",
        )
    change = PartitionChangeBuilder(cluster, topic, index, f"reassignment to {list(wanted)} begins")
    change.replicas, change.adding, change.removing = new
    return change.build()


# -- cancelling ------------------------------------------------------------------------------------


class ReassignmentOrigin(NamedTuple):
    """The state to which a partition returns: its replicas without the added ones, and the ISR of these."""

    replicas: Replicas
    isr: Replicas


def is_moving(topic: Topic, index: int) -> bool:
    rare = topic.rare.get(index, ORDINARY)
    return bool(rare.adding or rare.removing)


def origin(topic: Topic, index: int) -> ReassignmentOrigin:
    adding = topic.rare.get(index, ORDINARY).adding
    return ReassignmentOrigin(
        tuple([b for b in topic.replicas[index] if b not in adding]),
        tuple([b for b in topic.isr[index] if b not in adding]),
    )


def undecided(cluster: ControllerContext, request: AlterPartitionReassignmentsRequest) -> list[int]:
    """The keys of partitions that several replicas could lead uncleanly after the cancellation.
    Their replicas are asked first which one is furthest ahead."""
    keys = []
    for wanted in request.topics:
        topic = cluster.image.topics_by_name.get(wanted.name)
        for target in wanted.partitions:
            index = target.partition_index
            if topic is None or target.replicas is not None or not topic.has(index):
                continue
            if is_moving(topic, index) and cluster.rules(topic).unclean:
                back = origin(topic, index)
                in_sync = [b for b in back.isr if _may_lead(cluster, topic, index, b)]
                live = [b for b in back.replicas if _may_lead(cluster, topic, index, b)]
                if not in_sync and len(live) > 1:
                    keys.append(topic.slot << 32 | index)
    return keys


def _may_lead(cluster: ControllerContext, topic: Topic, index: int, broker: int) -> bool:
    at = topic.replicas[index].index(broker)
    return cluster.may_lead(broker, topic.directories[index][at])


def cancel(
    cluster: ControllerContext, topic: Topic, index: int, asked: LogEndQuery | None = None
) -> PartitionChangeRecord | None:
    """Return to the replicas before the reassignment, without those that it added. If none of them
    is in sync and live, and unclean elections are allowed, the most advanced one by `asked` leads.
    Raises NO_REASSIGNMENT_IN_PROGRESS, and INVALID_REPLICA_ASSIGNMENT if the partition would have
    no live leader.
    """
    if not is_moving(topic, index):
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
        )
    name = f"{topic.name}:{index}"
    back = origin(topic, index)
    strategy = partial(_reverted, back, asked)
    change = PartitionChangeBuilder(cluster, topic, index, "reassignment is cancelled", strategy)
    change.replicas, change.isr = back
    change.adding = change.removing = ()
    if not back.isr and not change.unclean_allowed:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name} because it would require an"
            f" unclean leader election: of {list(change.replicas)} none is in the ISR"
            f" {list(topic.isr[index])}.",
        )
    if not back.isr and not cluster.elr_enabled:
        change.isr = back.replicas[:1]  # without ELR an ISR must have a member
    record = change.build()
    elected = change.elected
    had_leader = topic.leader[index] != NO_LEADER
    # Without ELR the replica that was put into the ISR would lead later, even if others are ahead.
    in_name = change.isr != back.isr and elected is not None and elected.leader == NO_LEADER
    is_lost = in_name and any(_may_lead(cluster, topic, index, b) for b in back.replicas)
    if is_lost or (record is not None and record.leader == NO_LEADER and had_leader):
        why = elected.reason if elected else "no replica can lead"
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name} because it would be left without a"
            f" live leader: {why}.",
        )
    return record


def _reverted(
    back: ReassignmentOrigin, asked: LogEndQuery | None, electorate: Electorate
) -> Elected:
    """The strategy of a cancellation: elect as after the loss of a leader, among the original
    replicas."""
    elected = elections.keep_or_offline(electorate._replace(isr=back.isr))
    if not elected.recover:
        return elected
    if asked is not None:
        old = tuple([broker for broker in asked.asked if broker in back.replicas])
        answers = {broker: asked.answers[broker] for broker in old if broker in asked.answers}
        return most_advanced(answers, old, electorate)
    # No replica was asked: a leaderless partition is under recovery, which continues with its old replicas.
    return elected._replace(recover=electorate.leader == NO_LEADER)


# -- watching --------------------------------------------------------------------------------------


def list_reassignments(
    cluster: ControllerContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The reassignments under way, of the named topics or of all."""
    topics = []
    if request.topics is None:
        for topic in cluster.image.topics_by_name.values():
            ongoing = list(_ongoing(topic, sorted(topic.rare)))
            if ongoing:
                topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    else:
        for asked in request.topics:
            known = cluster.image.topics_by_name.get(asked.name)
            ongoing = list(_ongoing(known, asked.partition_indexes)) if known else []
            if ongoing:
                topics.append(OngoingTopicReassignment(name=asked.name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _ongoing(topic: Topic, indexes: object) -> Iterator[OngoingPartitionReassignment]:
    assert isinstance(indexes, (list, tuple))
    for index in indexes:
        rare = topic.rare.get(index, ORDINARY)
        if rare.adding or rare.removing:
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=topic.replicas[index],
                adding_replicas=rare.adding,
                removing_replicas=rare.removing,
            )
