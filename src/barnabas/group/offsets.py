"""Rules of committed offsets: who may commit, read and delete them, and when they expire.

The functions work on :class:`~barnabas.group.group_table.GroupTable` and
:class:`~barnabas.group.offset_table.OffsetTable`; none of them changes an offset; only the replay
of records does.

Source: ``OffsetMetadataManager`` and ``ClassicGroup.validateOffset*`` of Apache Kafka 4.3; KIP-211
(expiry), KIP-447 (`require_stable`), KIP-496 (deletion), KIP-848 (topic ids).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from barnabas.group.classic_group import ClassicGroup, GroupState
from barnabas.group.consumer.committing import check_commit as check_consumer_commit
from barnabas.group.consumer.committing import check_fetch
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.records import group_tombstones
from barnabas.group.group_table import SHARE_TYPE, STREAMS_TYPE, Group, GroupTable
from barnabas.group.offset_table import OffsetAndMetadata, OffsetTable, Place
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.record_codec import (
    GroupRecord,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from barnabas.log.state.producer_state import TransactionalWriter
from barnabas.operation import Instant
from barnabas.types import ZERO_UUID, Uuid, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import offset_commit_request as commit_in
from barnabas.wire.messages import offset_commit_response as commit_out
from barnabas.wire.messages import offset_delete_request as delete_in
from barnabas.wire.messages import offset_delete_response as delete_out
from barnabas.wire.messages import offset_fetch_request as fetch_in
from barnabas.wire.messages import offset_fetch_response as fetch_out
from barnabas.wire.messages import txn_offset_commit_request as txn_in
from barnabas.wire.messages import txn_offset_commit_response as txn_out

if TYPE_CHECKING:
    from barnabas.group.share.share_group import ShareGroup
    from barnabas.group.streams.streams_group import StreamsGroup

GroupWithOffsets: TypeAlias = "ClassicGroup | ConsumerGroup | StreamsGroup"
MEMBER_EPOCH_VERSION = 9
"""The first version of OffsetCommit with an error code for a missing group."""
TXN_MEMBER_EPOCH_VERSION = 6
"""The first version of TxnOffsetCommit with error codes for a missing group and a stale member
epoch."""
ANY_RETENTION = -1
_RUNNING = (GroupState.STABLE, GroupState.PREPARING_REBALANCE)


def commit_offsets(
    table: GroupTable, request: commit_in.OffsetCommitRequest, caller: Caller, at: Instant
) -> GroupOutcome:
    """Commit offsets for a member of the present generation, or for any client if the group has no
    members. Raises ``KafkaError`` if the member may not commit."""
    group = _with_offsets(_group_to_commit(table, request, caller, at))
    epoch = request.generation_id_or_member_epoch
    if not isinstance(group, ClassicGroup):
        _check_member_commit(group, request, caller.api_version)
    else:
        check_commit(group, request.member_id, request.group_instance_id, epoch)
    if isinstance(group, ClassicGroup) and group.state in _RUNNING:
        member = group.members.get(request.member_id)
        if member is not None:
            table.keep_alive(group, member, at)
    retention_ms = request.retention_time_ms
    expire_ms = -1 if retention_ms == ANY_RETENTION else at.wall_ms + retention_ms
    limit = table.offsets_settings.metadata_bytes_max
    outcome, topics = GroupOutcome(), []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            too_large = len(metadata) > limit
            if not too_large:
                committed = OffsetAndMetadata(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    at.wall_ms,
                    expire_ms,
                    topic.topic_id,
                )
                outcome.records.append(
                    offset_record(
                        request.group_id, topic.name, partition.partition_index, committed
                    )
                )
            answers.append(
                commit_out.OffsetCommitResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else 0,
                )
            )
        topics.append(
            commit_out.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=answers
            )
        )
    outcome.reply = commit_out.OffsetCommitResponse(topics=topics)
    return outcome


def commit_transactional_offsets(
    table: GroupTable,
    request: txn_in.TxnOffsetCommitRequest,
    producer: TransactionalWriter,
    version: int,
    at: Instant,
) -> GroupOutcome:
    """Write offsets that take effect when the transaction of `producer` is committed (KIP-98,
    KIP-447). Every topic in `request` has its name and id; `version` is the client's. Raises
    ``KafkaError`` if the member may not commit."""
    epoch = request.generation_id_or_member_epoch
    if epoch >= 0 and version >= TXN_MEMBER_EPOCH_VERSION:
        group = _with_offsets(table.group(request.group_id))
    else:
        group = _with_offsets(_group_for(table, request.group_id, epoch, at))
    if not isinstance(group, ClassicGroup):
        _check_transaction(group, request, version)
    else:
        check_commit(group, request.member_id, request.group_instance_id, epoch, transactional=True)
    limit = table.offsets_settings.metadata_bytes_max
    outcome, topics = GroupOutcome(producer=producer), []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            index, code = partition.partition_index, ErrorCode.NONE
            if len(metadata) > limit:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = OffsetAndMetadata(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    at.wall_ms,
                    topic_id=topic.topic_id,
                )
                record = offset_record(request.group_id, topic.name, index, committed)
                outcome.records.append(record)
            answers.append(
                txn_out.TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
            )
        topics.append(
            txn_out.TxnOffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=answers
            )
        )
    outcome.reply = txn_out.TxnOffsetCommitResponse(topics=topics)
    return outcome


def _check_transaction(
    group: ConsumerGroup | StreamsGroup, request: txn_in.TxnOffsetCommitRequest, version: int
) -> None:
    """Raises ``KafkaError`` if the member may not commit. Clients know member epochs from version 6
    on; an older client gets ILLEGAL_GENERATION for a stale one."""
    try:
        _check_member_commit(group, request, 0, transactional=True)
    except KafkaError as error:
        if error.code is not ErrorCode.STALE_MEMBER_EPOCH or version >= TXN_MEMBER_EPOCH_VERSION:
            raise
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from error


def _check_member_commit(
    group: ConsumerGroup | StreamsGroup,
    request: commit_in.OffsetCommitRequest | txn_in.TxnOffsetCommitRequest,
    version: int,
    *,
    transactional: bool = False,
) -> None:
    """Raises the error of a member that commits at an epoch."""
    member_id, epoch = request.member_id, request.generation_id_or_member_epoch
    places = [
        (topic.topic_id, topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if isinstance(group, ConsumerGroup):
        owned = [(topic_id, index) for topic_id, _, index in places]
        check_consumer_commit(group, member_id, epoch, version, owned, transactional=transactional)
        return
    from barnabas.group.streams.committing import check_streams_commit

    read = [(name, index) for _, name, index in places]
    check_streams_commit(group, member_id, epoch, version, read, transactional=transactional)


def _group_to_commit(
    table: GroupTable, request: commit_in.OffsetCommitRequest, caller: Caller, at: Instant
) -> Group:
    generation = request.generation_id_or_member_epoch
    if generation >= 0 and caller.api_version >= MEMBER_EPOCH_VERSION:
        return table.group(request.group_id)
    return _group_for(table, request.group_id, generation, at)


def _with_offsets(group: Group) -> GroupWithOffsets:
    """Return the group if it is of a kind that commits offsets. Raises GROUP_ID_NOT_FOUND for a
    share group."""
    if isinstance(group, (ClassicGroup, ConsumerGroup)) or group.protocol_type == STREAMS_TYPE:
        return cast("GroupWithOffsets", group)
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group."
    )


def _group_for(table: GroupTable, group_id: str, generation: int, at: Instant) -> Group:
    group = table.groups.get(group_id)
    if group is not None:
        return group
    if generation < 0:
        # The client is an administrator, or a consumer that assigns its partitions itself.
        return table.group_or_new(group_id, at)
    raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"Group {group_id} not found.")


def check_commit(
    group: ClassicGroup,
    member_id: str,
    instance_id: str | None,
    generation: int,
    *,
    transactional: bool = False,
) -> None:
    """Fence a commit by member, instance and generation. A transactional commit may lack all three
    (older clients had none), and may happen during a rebalance."""
    if group.state is GroupState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{group!r} is being unloaded")
    empty = group.state is GroupState.EMPTY
    if generation < 0 and empty:
        return
    if generation >= 0 or member_id or instance_id is not None:
        group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"group {group.group_id} is in generation {group.generation}",
            )
    elif not empty and not transactional:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id} has members: only they commit"
        )
    if group.state is GroupState.COMPLETING_REBALANCE and not transactional:
        raise KafkaError(
            ErrorCode.REBALANCE_IN_PROGRESS, f"group {group.group_id} awaits its assignment"
        )


def fetch_offsets(
    table: GroupTable,
    offsets: OffsetTable,
    request: fetch_in.OffsetFetchRequestGroup,
    *,
    newest: bool,
) -> fetch_out.OffsetFetchResponseGroup:
    """The requested offsets of one group, or all if `topics` is None. `newest` reads uncommitted
    state, too, and marks partitions with open transactions unstable; its answer must wait until
    that state is committed.
    """
    group_id = request.group_id
    find = table.groups.get if newest else table.groups.committed
    group = find(group_id)
    group = None if group is None else _with_offsets(group)
    exists = group is not None and group.state is not GroupState.DEAD
    if isinstance(group, ConsumerGroup):
        check_fetch(group, request.member_id, request.member_epoch, newest=newest)
    elif group is not None and not isinstance(group, ClassicGroup):
        from barnabas.group.streams.committing import check_streams_fetch

        check_streams_fetch(group, request.member_id, request.member_epoch, newest=newest)
    if request.topics is None:
        topics = _all_topics(offsets, group_id, newest) if exists else []
        return fetch_out.OffsetFetchResponseGroup(group_id=group_id, topics=topics)
    look_up = offsets.get if newest else offsets.committed
    answers = []
    for topic in request.topics:
        parts = []
        for partition in topic.partition_indexes:
            place = (topic.name, partition)
            known = look_up(group_id, place) if exists else None
            if known is not None and _other_topic(known.topic_id, topic.topic_id):
                known = None
            unstable = newest and exists and offsets.is_pending(group_id, place)
            parts.append(_fetched(partition, known, unstable))
        answers.append(
            fetch_out.OffsetFetchResponseTopics(
                name=topic.name, topic_id=topic.topic_id, partitions=parts
            )
        )
    return fetch_out.OffsetFetchResponseGroup(group_id=group_id, topics=answers)


def _all_topics(
    offsets: OffsetTable, group_id: str, newest: bool
) -> list[fetch_out.OffsetFetchResponseTopics]:
    known = offsets.items(group_id) if newest else offsets.committed_items(group_id)
    topics = by_topic(
        (
            (topic, committed.topic_id),
            _fetched(
                partition,
                committed,
                newest and offsets.is_pending(group_id, (topic, partition)),
            ),
        )
        for (topic, partition), committed in sorted(known)
    )
    return [
        fetch_out.OffsetFetchResponseTopics(name=topic, topic_id=topic_id, partitions=found)
        for (topic, topic_id), found in topics.items()
    ]


def _other_topic(known: Uuid, asked: Uuid) -> bool:
    """Whether an offset belongs to an earlier topic of the same name."""
    return ZERO_UUID not in (known, asked) and known != asked


def _fetched(
    partition: int, known: OffsetAndMetadata | None, unstable: bool
) -> fetch_out.OffsetFetchResponsePartitions:
    if unstable or known is None:
        return fetch_out.OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=-1,
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else 0,
        )
    return fetch_out.OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=known.offset,
        committed_leader_epoch=known.leader_epoch,
        metadata=known.metadata,
    )


def delete_offsets(
    table: GroupTable, offsets: OffsetTable, request: delete_in.OffsetDeleteRequest
) -> GroupOutcome:
    """Delete offsets of topics to which no member of the group subscribes. Raises GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP."""
    group = _with_offsets(table.group(request.group_id))
    if group.state is GroupState.DEAD:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is in dead state.")
    if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group.group_id} has members")
    outcome, topics = GroupOutcome(), []
    for topic in request.topics:
        in_use = group.subscribes_to(topic.name)
        parts = []
        for partition in topic.partitions:
            index = partition.partition_index
            place = (topic.name, index)
            parts.append(
                delete_out.OffsetDeleteResponsePartition(
                    partition_index=index,
                    error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else 0,
                )
            )
            known = offsets.get(group.group_id, place) is not None
            if not in_use and (known or offsets.is_pending(group.group_id, place)):
                outcome.records.append(offset_tombstone(group.group_id, topic.name, index))
        topics.append(delete_out.OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
    outcome.reply = delete_out.OffsetDeleteResponse(topics=topics)
    return outcome


def delete_group(table: GroupTable, offsets: OffsetTable, group_id: str) -> list[GroupRecord]:
    """The records that delete a group without members and its offsets. Raises GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP."""
    group = table.group(group_id)
    if group.state is GroupState.DEAD:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is in dead state.")
    if group.state is not GroupState.EMPTY:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id} has members")
    places: dict[Place, None] = dict.fromkeys(place for place, _ in offsets.items(group_id))
    places.update(dict.fromkeys(offsets.pending_places(group_id)))
    records = [offset_tombstone(group_id, topic, index) for topic, index in places]
    return [*records, *tombstones(group)]


def tombstones(group: Group) -> list[GroupRecord]:
    """The records that say that a group without members is gone."""
    if isinstance(group, ConsumerGroup):
        return group_tombstones(group)
    if isinstance(group, ClassicGroup):
        return [group_tombstone(group.group_id)]
    if group.protocol_type == SHARE_TYPE:
        from barnabas.group.share.records import group_tombstones as share_tombstones

        return share_tombstones(cast("ShareGroup", group))
    from barnabas.group.streams.records import group_tombstones as streams_tombstones

    return streams_tombstones(group.group_id)


def delete_topics(
    table: GroupTable, offsets: OffsetTable, deleted: Mapping[Uuid, str]
) -> GroupOutcome:
    """The records that delete the offsets of the topics `deleted` (name by id), those of open
    transactions included. Offsets of other topics with these names stay. An offset without an id
    was committed before offsets had ids."""
    outcome, names = GroupOutcome(atomic=False), set(deleted.values())

    def is_gone(offset: OffsetAndMetadata) -> bool:
        return offset.topic_id in deleted or offset.topic_id == ZERO_UUID

    for group_id, _ in table.groups.items():
        for (topic, partition), known in offsets.items(group_id):
            if topic in names and is_gone(known):
                outcome.records.append(offset_tombstone(group_id, topic, partition))
    for group_id, place, pending in offsets.pending_items():
        if place[0] in names and is_gone(pending):
            beside = offsets.get(group_id, place)
            if beside is None:  # else it has its tombstone, or is another topic's
                outcome.records.append(offset_tombstone(group_id, *place))
    return outcome


def expire_offsets(table: GroupTable, offsets: OffsetTable, at: Instant) -> GroupOutcome:
    """The records that delete offsets which no client has used for the retention time, and groups
    that have no offsets left."""
    outcome = GroupOutcome(atomic=False)
    retention_ms = table.offsets_settings.retention_minutes * 60_000
    for _, group in table.groups.items():
        if not isinstance(group, ClassicGroup) and group.protocol_type == SHARE_TYPE:
            continue  # it has no offsets here, and stays until it is deleted
        group = _with_offsets(group)
        everything = _expire_group(group, offsets, at.wall_ms, retention_ms, outcome.records)
        if everything and group.state is GroupState.EMPTY:
            outcome.records += tombstones(group)
    return outcome


def _expire_group(
    group: GroupWithOffsets,
    offsets: OffsetTable,
    wall_ms: int,
    retention_ms: int,
    records: list[GroupRecord],
) -> bool:
    """Add tombstones for the offsets that expired. Returns whether the group has none left."""
    group_id = group.group_id
    known = offsets.items(group_id)
    if not known:
        return not any(True for _ in offsets.pending_places(group_id))
    since_empty = group.protocol_type is not None and group.state is GroupState.EMPTY
    subscribed = not isinstance(group, ClassicGroup) or (
        group.uses_consumer_protocol
        and group.topics is not None
        and group.state is GroupState.STABLE
    )
    if group.protocol_type is not None and not since_empty and not subscribed:
        return False
    left = False
    for (topic, partition), offset in known:
        base_ms = offset.commit_ms
        if since_empty and group.state_wall_ms != -1:
            base_ms = group.state_wall_ms
        explicit = offset.expire_ms != -1
        due = wall_ms >= offset.expire_ms if explicit else wall_ms - base_ms >= retention_ms
        place = (topic, partition)
        in_use = group.subscribes_to(topic) or offsets.is_pending(group_id, place)
        if due and not in_use:
            records.append(offset_tombstone(group_id, topic, partition))
        else:
            left = True
    return not left and not any(True for _ in offsets.pending_places(group_id))
