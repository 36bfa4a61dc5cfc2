"""Decodes every kind of file in a log directory into rows: dictionaries of plain values, one per entry.

``.log`` and ``.checkpoint`` files have record batches; records of internal topics are decoded, the topic is
taken from the name of the folder. ``.index``, ``.timeindex``, ``.txnindex`` and ``.snapshot`` files are
tables. The ``*-checkpoint`` files, ``quorum-state`` and ``meta.properties`` are text. Files are read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any

from barnabas.group.record_codec import decode_record as decode_group_record
from barnabas.log.segments.indexes import OffsetIndex, TimeIndex
from barnabas.log.segments.transaction_index import ENTRY as ABORTED
from barnabas.metadata.image.codec import decode_record as decode_metadata_record
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.metadata.views.metadata_tree import SECRET, shown_value
from barnabas.raft.core.batches import control_records
from barnabas.record.batch import BatchView, CorruptBatchError, iterate
from barnabas.record.compression import Codec
from barnabas.record.decode import Record, records_of
from barnabas.transaction.record_codec import describe_record as describe_transaction_record
from barnabas.types import METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, uuid_text
from barnabas.wire.codec import MalformedError, UnsupportedFieldError, decode
from barnabas.wire.messages.end_txn_marker import EndTxnMarker
from barnabas.wire.messages.producer_snapshot import ProducerSnapshot
from barnabas.wire.schema import Message

Row = dict[str, Any]
_SNAPSHOT_VERSION = Struct(">h")
COMMIT = 1


def rows_of(file: Path, with_records: bool) -> Iterator[Row]:
    """The entries of `file`. Raises `OSError`, `CorruptBatchError`, `MalformedError`, and
    `UnsupportedFieldError` for an unknown version."""
    read = READERS.get(file.suffix)
    if read is not None:
        yield from read(memoryview(file.read_bytes()), base_offset(file))
    elif file.suffix in (".log", ".checkpoint"):
        decoder = decoder_for(file)
        yield from batches(memoryview(file.read_bytes()), with_records, decoder)
    else:
        for line in file.read_text("utf-8", "backslashreplace").splitlines():
            yield {"line": line}


def base_offset(file: Path) -> int:
    digits = file.name.split(".")[0].split("-")[0]
    return int(digits) if digits.isdigit() else 0


Decoder = Callable[[Record], Any]


def decoder_for(file: Path) -> Decoder:
    """The decoder for a file's records, by the topic in its folder's name."""
    topic = file.absolute().parent.name.rpartition("-")[0]
    if topic == METADATA_TOPIC or file.name == "bootstrap.checkpoint":
        return metadata_record
    if topic == OFFSETS_TOPIC:
        return group_record
    if topic == TRANSACTIONS_TOPIC:
        return transaction_record
    return text_record


def batches(data: memoryview, with_records: bool, decoder: Decoder) -> Iterator[Row]:
    """A row per batch; with `with_records` its ``records`` are decoded. Raises `CorruptBatchError`."""
    for batch in iterate(data, crc=True, partial_tail=False):
        row = batch_row(batch)
        if batch.header.is_control:
            row["records"] = controls(batch)
        elif with_records:
            row["records"] = [
                {"offset": r.offset, "timestamp": r.timestamp, **decoder(r)}
                for r in records_of(batch)
            ]
        yield row


def batch_row(batch: BatchView) -> Row:
    header = batch.header
    return {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "size": header.size,
        "leader_epoch": header.leader_epoch,
        "codec": codec_name(header.codec),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def codec_name(codec: int) -> str:
    """The codec's name; the number of an unknown one."""
    try:
        return Codec(codec).name.lower()
    except ValueError:
        return str(codec)


def controls(batch: BatchView) -> list[Row]:
    """Control records: transaction markers, and those of the quorum."""
    if not batch.header.is_transactional:
        return [
            {"control": type(message).__name__, **plain(message)}
            for _, message in control_records(batch.data)
        ]
    rows = []
    for record in records_of(batch):
        kind = int.from_bytes((record.key or b"")[2:4], "big")
        marker = decode(EndTxnMarker, 0, (record.value or b"")[2:])
        rows.append(
            {
                "control": "commit" if kind == COMMIT else "abort",
                "coordinator_epoch": marker.coordinator_epoch,
            }
        )
    return rows


def metadata_record(record: Record) -> Row:
    message = decode_metadata_record(record.value or b"")
    return {"type": type(message).__name__, **without_secrets(message, plain(message))}


def without_secrets(message: Message, row: Row) -> Row:
    """Hide the SCRAM credentials and the sensitive configurations in a metadata record."""
    if isinstance(message, UserScramCredentialRecord):
        return row | dict.fromkeys(("salt", "stored_key", "server_key"), SECRET)
    if isinstance(message, ConfigRecord) and message.value is not None:
        shown = shown_value(message.resource_type, message.name, message.value)
        return row | {"value": shown}
    return row


def group_record(record: Record) -> Row:
    decoded = decode_group_record(record.key, record.value)
    if decoded is None:
        return raw_record(record)
    value = None if decoded.value is None else plain(decoded.value)
    return {"type": type(decoded.key).__name__, "key": plain(decoded.key), "value": value}


def transaction_record(record: Record) -> Row:
    try:
        decoded = describe_transaction_record(record.key or b"", record.value)
    except ValueError as error:
        return {"damaged": str(error), **raw_record(record)}
    if decoded is None:
        return raw_record(record)
    key, value = decoded
    return {
        "type": type(key).__name__,
        "key": plain(key),
        "value": None if value is None else plain(value),
    }


def raw_record(record: Record) -> Row:
    return {
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
    }


def text_record(record: Record) -> Row:
    row: Row = {"key": text(record.key), "value": text(record.value)}
    if record.headers:
        row["headers"] = [[name, text(content)] for name, content in record.headers]
    return row


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def plain(message: Message) -> Row:
    """A message's fields as values for JSON, without fields that have their default value."""
    row: Row = {}
    default = type(message)()
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if value != getattr(default, field.name) or field.name == "version":
            row[field.name] = _plain_value(field.kind, value)
    return row


def _plain_value(kind: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain_value(kind, item) for item in value]
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, (bytes, memoryview)):
        return uuid_text(value) if kind == "uuid" else bytes(value).hex()  # type: ignore[arg-type]
    return value


def offset_index(data: memoryview, base: int) -> Iterator[Row]:
    for relative, position in _entries(OffsetIndex.FORMAT, data):
        yield {"offset": base + relative, "position": position}


def time_index(data: memoryview, base: int) -> Iterator[Row]:
    for timestamp, relative in _entries(TimeIndex.FORMAT, data):
        yield {"timestamp": timestamp, "offset": base + relative}


def aborted_index(data: memoryview, base: int) -> Iterator[Row]:
    names = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
    for entry in _entries(ABORTED, data):
        yield dict(zip(names, entry, strict=True))


def producer_snapshot(data: memoryview, base: int) -> Iterator[Row]:
    if len(data) < 2:
        raise MalformedError("a producer snapshot without a version")
    (version,) = _SNAPSHOT_VERSION.unpack_from(data)
    for entry in decode(ProducerSnapshot, version, data[2:]).producer_entries:
        yield plain(entry)


def _entries(layout: Struct, data: memoryview) -> Iterator[tuple[Any, ...]]:
    """Entries up to a preallocated tail of zeros; the first entry may be all zero."""
    whole = len(data) - len(data) % layout.size
    for number, entry in enumerate(layout.iter_unpack(data[:whole])):
        if number and not any(entry):
            return
        yield entry


READERS: dict[str, Callable[[memoryview, int], Iterator[Row]]] = {
    ".index": offset_index,
    ".timeindex": time_index,
    ".txnindex": aborted_index,
    ".snapshot": producer_snapshot,
}

__all__ = ["CorruptBatchError", "MalformedError", "UnsupportedFieldError", "rows_of"]
