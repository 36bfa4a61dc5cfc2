"""Encodes and decodes the records of ``__share_group_state``: a key (type int16, body) and a value
(version int16, body).

A value of None is a tombstone of the share partition's state. Records of unknown types and versions decode
to None and are skipped. Source: ``ShareCoordinatorRecordSerde`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, TypeAlias

from barnabas.share.key import SharePartitionKey
from barnabas.share.records.share_snapshot_key import ShareSnapshotKey
from barnabas.share.records.share_snapshot_value import ShareSnapshotValue
from barnabas.share.records.share_update_key import ShareUpdateKey
from barnabas.share.records.share_update_value import ShareUpdateValue
from barnabas.wire.codec import MalformedError, decode, encode_bytes

_INT16 = Struct(">h")
VERSION = 0
_Key: TypeAlias = type[ShareSnapshotKey] | type[ShareUpdateKey]
_Value: TypeAlias = type[ShareSnapshotValue] | type[ShareUpdateValue]
_KINDS: dict[int, tuple[_Key, _Value]] = {
    ShareSnapshotKey.API_KEY: (ShareSnapshotKey, ShareSnapshotValue),
    ShareUpdateKey.API_KEY: (ShareUpdateKey, ShareUpdateValue),
}


class ShareRecord(NamedTuple):
    """One record: a snapshot or an update of the key's state, or its tombstone (None)."""

    key: SharePartitionKey
    value: ShareSnapshotValue | ShareUpdateValue | None


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """The bytes of the key and of the value."""
    is_update = isinstance(record.value, ShareUpdateValue)
    key = (ShareUpdateKey if is_update else ShareSnapshotKey)(
        group_id=record.key.group_id,
        topic_id=record.key.topic_id,
        partition=record.key.partition,
    )
    head = _INT16.pack(key.API_KEY) + encode_bytes(key, VERSION)
    if record.value is None:
        return head, None
    return head, _INT16.pack(VERSION) + encode_bytes(record.value, VERSION)


def decode_record(key: bytes | None, value: bytes | None) -> ShareRecord | None:
    """The record, or None if its kind is not known. Raises ``ValueError`` if it is damaged."""
    if key is None or len(key) < 2:
        raise MalformedError("a record of the share state topic has no key")
    kind = _KINDS.get(_INT16.unpack_from(key)[0])
    if kind is None:
        return None
    read = decode(kind[0], VERSION, key[2:])
    name = SharePartitionKey(read.group_id, read.topic_id, read.partition)
    if value is None:
        return ShareRecord(name, None) if kind[0] is ShareSnapshotKey else None
    if len(value) < 2:
        raise MalformedError("a value of the share state topic has no version")
    if _INT16.unpack_from(value)[0] != VERSION:
        return None  # a later Kafka wrote it
    return ShareRecord(name, decode(kind[1], VERSION, value[2:]))
