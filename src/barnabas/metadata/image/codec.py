"""Metadata records ↔ the bytes of a record's value in ``__cluster_metadata``.

Framing as Kafka's (MetadataRecordSerde): frame version 1, api key, record version, all unsigned
varints, then the record's body. The hot records (PartitionRecord and PartitionChangeRecord) have
hand-tuned encoders, proven equal to the compiled codec by a property test.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from barnabas.metadata.features import record_versions
from barnabas.metadata.image.bulk_isr_shrinks import Shrinks
from barnabas.metadata.image.fast_encode import encode_partition, encode_partition_change
from barnabas.metadata.records.index import RECORD_MODULES
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.types import Buffer
from barnabas.wire import codec
from barnabas.wire.codec import MalformedError
from barnabas.wire.schema import Message

FRAME_VERSION = 1
SHRINKS_SINCE = 2
"""Version of PartitionChangeRecord."""

_VERSIONED = {
    0: "register_broker",
    17: "broker_registration_change",
    3: "partition",
    5: "partition_change",
}
"""The records that have several versions, by api key: which of `RecordVersions` says theirs."""
_types: dict[int, type[Message]] = {}
_kinds: dict[tuple[int, int], type[Message]] = {}
"""The classes of records, by api key and version."""


def record_type(api_key: int) -> type[Message]:
    """The class of an api key. Raises MalformedError for an unknown one."""
    cls = _types.get(api_key)
    if cls is None:
        entries = RECORD_MODULES.get(api_key)
        if entries is None:
            raise MalformedError(f"no metadata record has api key {api_key}")
        module, name = entries[0]
        cls = _types[api_key] = getattr(import_module(module), name)
    return cls


def record_version(record: Message, metadata_version: int) -> int:
    """The version in which `record` is written at `metadata_version`."""
    name = _VERSIONED.get(record.API_KEY)
    return 0 if name is None else int(getattr(record_versions(metadata_version), name))


def encode_record(record: Message, version: int) -> bytes:
    """The value of one record. Raises UnsupportedFieldError for a field that `version` lacks."""
    return b"".join(
        (bytes((FRAME_VERSION, record.API_KEY, version)), *codec.encode(record, version))
    )


def decode_record(value: Buffer) -> Message:
    """The record in a value. Raises MalformedError for unknown frames, keys, versions and bytes."""
    data = memoryview(value)
    size = len(data)
    if size < 3:
        raise MalformedError(f"a metadata record of {size} bytes")
    frame, key, version = data[0], data[1], data[2]
    if frame != FRAME_VERSION:
        raise MalformedError(f"unknown frame version {frame} of a metadata record")
    cls = _kinds.get((key, version)) or _kind(key, version)
    message, position = codec.decode_prefix(cls, version, data, 3)
    if position != size:
        raise MalformedError(f"{size - position} bytes follow {cls.__name__}")
    return message


def _kind(api_key: int, version: int) -> type[Message]:
    cls = record_type(api_key)
    if not cls.VALID[0] <= version <= cls.VALID[1]:
        raise MalformedError(f"unknown version {version} of {cls.__name__}")
    _kinds[api_key, version] = cls
    return cls


def encode_records(records: Iterable[Message | Shrinks], metadata_version: int) -> list[bytes]:
    """The values of records, each in the version that `metadata_version` gives it. `Shrinks` have theirs:
    they are of no version before 2."""
    if record_versions(metadata_version).partition_change < SHRINKS_SINCE:
        return [
            encode_record(r, record_version(r, metadata_version))
            for r in records
            if not isinstance(r, Shrinks)
        ]
    values: list[bytes] = []
    for record in records:
        if type(record) is Shrinks:
            values += record.values
            continue
        assert isinstance(record, Message)
        value = None
        if type(record) is PartitionChangeRecord:
            value = encode_partition_change(record)
        elif type(record) is PartitionRecord:
            value = encode_partition(record)
        if value is None:
            value = encode_record(record, record_version(record, metadata_version))
        values.append(value)
    return values
