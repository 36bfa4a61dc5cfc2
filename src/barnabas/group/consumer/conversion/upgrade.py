"""A classic group becomes a consumer group when a member of that protocol joins it.

Its members keep their assignments and continue in the classic protocol.

Source: ``GroupMetadataManager.convertToConsumerGroup`` and ``ConsumerGroup.fromClassicGroup`` of Apache
Kafka 4.3; KIP-848, "Migrating".
"""

from __future__ import annotations

from barnabas.group.classic_group import ClassicGroup, ClassicGroupMember
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.consumer.consumer_group import ConsumerGroup, detached
from barnabas.group.consumer.conversion.embedded import (
    EmbeddedError,
    assigned_by,
    read_assignment,
    read_subscription,
)
from barnabas.group.consumer.member import ClassicMetadata, ConsumerMember
from barnabas.group.consumer.records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    target_record,
)
from barnabas.group.consumer.replay import apply
from barnabas.group.group_table import GroupTable, GroupTimer
from barnabas.group.rebalance import join_refused, sync_refused
from barnabas.group.record_codec import GroupRecord, group_tombstone
from barnabas.operation import Instant
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError


def upgrade(
    table: GroupTable, classic: ClassicGroup, records: list[GroupRecord], at: Instant
) -> ConsumerGroup:
    """The consumer group that `classic` becomes; its records are added to `records`. Raises
    GROUP_ID_NOT_FOUND if it cannot become one."""
    group_id, cluster, epoch = classic.group_id, table.cluster, classic.generation
    _check(table, classic)
    try:
        members = [_converted(classic, member, cluster) for member in classic.members.values()]
    except EmbeddedError as fault:
        raise _refused(group_id, f"the embedded consumer protocol is malformed: {fault}") from fault
    _check_single_owners(group_id, members)
    for old in classic.members.values():
        code = ErrorCode.REBALANCE_IN_PROGRESS
        table.answer_join(old, join_refused(code, old.member_id))
        table.answer_sync(old, sync_refused(code))
    names = {name for member in members for name in member.topics}
    made = [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, epoch, cluster.group_hash(names)),
        *(
            target_record(
                group_id,
                member.member_id,
                {topic_id: frozenset(parts) for topic_id, parts in member.assigned.items()},
            )
            for member in members
        ),
        assignment_epoch_record(group_id, epoch, 0),
        *(current_record(group_id, member) for member in members),
    ]
    group = detached(group_id)
    for record in made:
        apply(group, record.key, record.value)
    records += [group_tombstone(group_id), *made]
    for member in members:
        assert member.classic is not None
        key = (GroupTimer.SESSION, group_id, member.member_id)
        table.timers.schedule(key, at.now_ms + member.classic.session_timeout_ms)
    return group


def _check(table: GroupTable, classic: ClassicGroup) -> None:
    limit = table.settings.consumer_size_max
    if not table.settings.may_upgrade:
        raise _refused(classic.group_id, "online upgrade is disabled")
    if not classic.uses_consumer_protocol:
        raise _refused(classic.group_id, "the group does not use the consumer embedded protocol")
    if len(classic.members) > limit:
        raise _refused(classic.group_id, "the group size exceeds the consumer group maximum size")


def _refused(group_id: str, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group_id} to consumer group because {why}.",
    )


def _check_single_owners(group_id: str, members: list[ConsumerMember]) -> None:
    owners: dict[tuple[Uuid, int], str] = {}
    for member in members:
        for topic_id, partitions in member.assigned.items():
            for partition in partitions:
                if owners.setdefault((topic_id, partition), member.member_id) != member.member_id:
                    raise _refused(group_id, "a partition is assigned to two members")


def _converted(
    classic: ClassicGroup, member: ClassicGroupMember, cluster: ClusterTopics
) -> ConsumerMember:
    protocols = dict(member.protocols)
    chosen = classic.protocol_name
    if chosen is None or chosen not in protocols:
        chosen = member.protocols[0][0]  # the group has no generation yet
    subscription = read_subscription(protocols[chosen])
    epoch = classic.generation
    assigned: dict[Uuid, dict[int, int]] = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise EmbeddedError("an unsupported custom assignor is in use")
        assigned = assigned_by(assignment, epoch, cluster)
    return ConsumerMember(
        member.member_id,
        member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=assigned,
    )
