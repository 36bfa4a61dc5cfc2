"""The replay of each record of ``__consumer_offsets``: groups and their offsets.

Source: ``GroupCoordinatorShard.replay`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Any

from barnabas.group.classic_group import ClassicGroup, ClassicGroupMember, GroupState
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.replay import apply, ends_group, is_consumer_key
from barnabas.group.group_table import GroupTable
from barnabas.group.offset_table import OffsetAndMetadata, OffsetTable
from barnabas.group.record_codec import SHARE_KINDS, STREAMS_KINDS, GroupRecord
from barnabas.group.records.group_metadata_value import GroupMetadataValue
from barnabas.group.records.offset_commit_key import OffsetCommitKey
from barnabas.group.records.offset_commit_value import OffsetCommitValue


def replay_record(
    table: GroupTable, offsets: OffsetTable, offset: int, producer_id: int, record: GroupRecord
) -> None:
    """Apply one record; `producer_id` is -1 outside of transactions."""
    key, value = record.key, record.value
    if isinstance(key, OffsetCommitKey):
        assert value is None or isinstance(value, OffsetCommitValue)
        _replay_offset(table, offsets, offset, producer_id, key, value)
    elif is_consumer_key(key):
        _replay_consumer(table, key, value)
    elif key.API_KEY in SHARE_KINDS:
        from barnabas.group.share.replay import replay_share

        replay_share(table, key, value)
    elif key.API_KEY in STREAMS_KINDS:
        from barnabas.group.streams.replay import replay_streams

        replay_streams(table, key, value)
    elif value is None:
        if table.classic(key.group) is not None:
            table.groups.remove(key.group)
    else:
        assert isinstance(value, GroupMetadataValue)
        table.groups.put(key.group, _group_from(key.group, value))


def _replay_consumer(table: GroupTable, key: Any, value: Any) -> None:
    groups = table.groups
    group = table.consumer(key.group_id)
    if ends_group(key, value):
        if group is not None:
            groups.remove(key.group_id)
        return
    if group is None:
        if value is None:
            return  # the group is gone
        # A classic group of that name only held offsets, or its tombstone was compacted away.
        group = ConsumerGroup(key.group_id, table.journal)
        groups.put(key.group_id, group)
    apply(group, key, value)


def _replay_offset(
    table: GroupTable,
    offsets: OffsetTable,
    offset: int,
    producer_id: int,
    key: OffsetCommitKey,
    value: OffsetCommitValue | None,
) -> None:
    place = (key.topic, key.partition)
    if value is None:
        offsets.remove(key.group, place)
        return
    if key.group not in table.groups:
        # The group only commits offsets: it has neither members nor a protocol.
        table.groups.put(key.group, ClassicGroup(key.group, value.commit_timestamp))
    committed = OffsetAndMetadata(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        offset,
    )
    if producer_id < 0:
        offsets.put(key.group, place, committed)
    else:
        offsets.put_pending(producer_id, key.group, place, committed)


def _group_from(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that the record describes; it is stable if it has members."""
    group = ClassicGroup(
        group_id,
        value.current_state_timestamp,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader_id=value.leader,
    )
    for item in value.members:
        rebalance_ms = item.rebalance_timeout
        group.add(
            ClassicGroupMember(
                item.member_id,
                item.group_instance_id,
                client_id=item.client_id,
                client_host=item.client_host,
                rebalance_timeout_ms=item.session_timeout if rebalance_ms == -1 else rebalance_ms,
                session_timeout_ms=item.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", bytes(item.subscription)),),
                assignment=bytes(item.assignment),
            )
        )
    group.topics = group.compute_topics()
    return group
