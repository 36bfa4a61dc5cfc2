"""Encodes and decodes the records of ``__consumer_offsets``: a key (type int16, body) and a value
(version int16, body).

A value of None is a tombstone. Records of unknown types decode to None and are skipped, as in
Kafka. The classes of share and streams groups' records are loaded with the first such record.

Source: ``GroupCoordinatorRecordSerde`` and ``GroupCoordinatorRecordHelpers`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.group.consumer.replay import CONSUMER_RECORDS
from barnabas.group.records.group_metadata_key import GroupMetadataKey
from barnabas.group.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from barnabas.group.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from barnabas.group.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from barnabas.group.records.offset_commit_key import OffsetCommitKey
from barnabas.group.records.offset_commit_value import OffsetCommitValue
from barnabas.wire.codec import MalformedError, decode, encode_bytes
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.group.classic_group import ClassicGroup
    from barnabas.group.offset_table import OffsetAndMetadata

_INT16 = Struct(">h")
KEY_VERSION = 0
"""The version of every key's body; the type identifies the kind of key."""
GROUP_METADATA_VERSION = 3
OFFSET_VERSION = 4
OFFSET_VERSION_WITH_EXPIRY = 1
"""The only version of an offset with a date of expiry (OffsetCommit v2 to v4)."""
EXPIRY_NONE = -1

_RECORDS: tuple[tuple[type[Message], type[Message]], ...] = (
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    *CONSUMER_RECORDS,
)
_KINDS = {key.API_KEY: (key, value) for key, value in _RECORDS}
SHARE_KINDS = range(10, 16)
"""The types of share groups' records."""
STREAMS_KINDS = frozenset({17, *range(19, 24)})
"""The types of streams groups' records."""


class GroupRecord(NamedTuple):
    """One record; `version` is the version of its value. `_KINDS` has the class of value for each
    kind of key."""

    key: Any
    value: Any
    version: int = 0


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The bytes of the key and of the value."""
    key = _INT16.pack(record.key.API_KEY) + encode_bytes(record.key, KEY_VERSION)
    if record.value is None:
        return key, None
    return key, _INT16.pack(record.version) + encode_bytes(record.value, record.version)


def decode_record(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """The record, or None for a type that is not served. Raises ``ValueError`` if it is damaged."""
    if key is None or len(key) < 2:
        raise MalformedError("a record of the offsets topic has no key")
    kind = _INT16.unpack_from(key)[0]
    if kind == LegacyOffsetCommitKey.API_KEY:
        return _legacy(decode(LegacyOffsetCommitKey, KEY_VERSION, key[2:]), value)
    known = _known(kind)
    if known is not None:
        key_class, value_class = known
        return _record(decode(key_class, KEY_VERSION, key[2:]), value_class, value)
    return None


def _known(kind: int) -> tuple[type[Message], type[Message]] | None:
    """The classes of key and value of a type."""
    if kind in SHARE_KINDS:
        return _share_kinds().get(kind)
    return _streams_kinds().get(kind) if kind in STREAMS_KINDS else _KINDS.get(kind)


@cache
def _share_kinds() -> Mapping[int, tuple[type[Message], type[Message]]]:
    from barnabas.group.share.replay import SHARE_RECORDS

    return SHARE_RECORDS


@cache
def _streams_kinds() -> Mapping[int, tuple[type[Message], type[Message]]]:
    from barnabas.group.streams.replay import STREAMS_RECORDS

    return STREAMS_RECORDS


def _record(key: Message, cls: type[Message], value: bytes | None) -> GroupRecord:
    if value is None:
        return GroupRecord(key, None)
    version = _version(value)
    return GroupRecord(key, decode(cls, version, value[2:]), version)


def _legacy(key: LegacyOffsetCommitKey, value: bytes | None) -> GroupRecord:
    modern = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if value is None:
        return GroupRecord(modern, None)
    version = _version(value)
    old = decode(LegacyOffsetCommitValue, version, value[2:])
    fields = {name: getattr(old, name) for name in old.__slots__}
    return GroupRecord(modern, OffsetCommitValue(**fields), version)


def _version(value: bytes) -> int:
    if len(value) < 2:
        raise MalformedError("a value of the offsets topic has no version")
    version: int = _INT16.unpack_from(value)[0]
    return version


def offset_record(
    group_id: str, topic: str, partition: int, committed: OffsetAndMetadata
) -> GroupRecord:
    """The record of a committed offset."""
    expires = committed.expire_ms != EXPIRY_NONE
    return GroupRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_ms,
            expire_timestamp=committed.expire_ms,
            topic_id=committed.topic_id,
        ),
        OFFSET_VERSION_WITH_EXPIRY if expires else OFFSET_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    """The tombstone of an offset that was deleted or has expired."""
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupRecord:
    """The record of the group's present state, with `assignments` by member id."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=assignments[member.member_id],
        )
        for member in group.members.values()
    ]
    return GroupRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=group.state_wall_ms,
            members=members,
        ),
        GROUP_METADATA_VERSION,
    )


def empty_group_record(group: ClassicGroup) -> GroupRecord:
    """The record of a group that has no generation yet."""
    return GroupRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=group.state_wall_ms,
            members=[],
        ),
        GROUP_METADATA_VERSION,
    )


def group_tombstone(group_id: str) -> GroupRecord:
    """The tombstone of a group."""
    return GroupRecord(GroupMetadataKey(group=group_id), None)
