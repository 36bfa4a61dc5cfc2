"""Checks what a client wants appended, and rewrites it where the topic's configuration asks.

The header is always checked. Records are walked only for compacted topics (each needs a key), for
recompression, or where the header cannot decide a bound; then errors name each bad record.
Source: ``LogValidator`` of Apache Kafka 4.3 for behaviour.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.limits import UNPACKED_BYTES_MAX
from barnabas.record.batch import (
    CODEC_MASK,
    CRC_AT,
    HEADER_SIZE,
    LENGTH_MIN,
    LENGTH_PREFIX,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_TIMESTAMP_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    BatchView,
    CorruptBatchError,
    check_crc,
    read_header,
    seal,
    write_header,
)
from barnabas.record.compression import DECOMPRESSED_BYTES_MAX, Codec, compress
from barnabas.record.spans import section_of, spans_of
from barnabas.wire.errors import ErrorCode, KafkaError

KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL
TIMESTAMP_MAX = (1 << 63) - 1
RECORD_SIZE_MIN = 7
"""Length, attributes, two deltas, two lengths, number of headers: a byte each."""
CODEC_NAMES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class RecordError(NamedTuple):
    """One refused record of a batch."""

    batch_index: int
    message: str


class InvalidRecordsError(KafkaError):
    """Records that are refused; `records` names them where they were walked."""

    def __init__(
        self, code: ErrorCode, message: str, records: tuple[RecordError, ...] = ()
    ) -> None:
        super().__init__(code, message)
        self.records = records


RECORD_BYTES_ANY = 2_147_483_639
"""Default of ``max.decompressed.message.bytes``: no record is larger."""


class ValidationRules(NamedTuple):
    """The rules for a batch that follow from the topic's configuration."""

    max_message_bytes: int
    compact: bool = False
    compression_type: str = "producer"
    log_append_time: bool = False
    before_max_ms: int = (1 << 63) - 1
    after_max_ms: int = (1 << 63) - 1
    compression_level: int | None = None
    """The level of `compression_type`; None is the codec's default."""
    record_bytes_max: int = RECORD_BYTES_ANY
    """The largest body of a record in a compressed batch."""


class Validated(NamedTuple):
    """The batch to append; its base offset and leader epoch are the log's to set."""

    header: BatchHeader
    data: memoryview


def validate(records: memoryview, rules: ValidationRules, wall_ms: int) -> Validated:
    """One batch of a client. Raises :class:`InvalidRecordsError`, :class:`KafkaError`."""
    header = _one_batch(records)
    _check_size(header, rules)
    try:
        check_crc(header, records)
    except CorruptBatchError as error:
        raise InvalidRecordsError(ErrorCode.CORRUPT_MESSAGE, error.why) from error
    _check_header(header)
    codec = _target_codec(rules, header)
    if codec != header.codec:
        rewritten = _rewrite(header, records, rules, wall_ms, codec)
        _check_size(rewritten.header, rules)
        return rewritten
    latest = header.max_timestamp
    measured = header.codec and rules.record_bytes_max < RECORD_BYTES_ANY
    if rules.compact or measured or not _timestamps_fit(header, rules, wall_ms):
        _, latest = _walk(header, records, rules, wall_ms)
    if rules.log_append_time:
        return _stamp(header.attributes | LOG_APPEND_TIME, records, wall_ms)
    if latest != header.max_timestamp:
        return _stamp(header.attributes, records, latest)
    return Validated(header, records)


def _check_size(header: BatchHeader, rules: ValidationRules) -> None:
    if header.size > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size} bytes, max.message.bytes is {rules.max_message_bytes}",
        )


def _one_batch(records: memoryview) -> BatchHeader:
    """Its header, where it is one whole batch of format 2. What only seems damaged must not be called that:
    clients send it again until their time-out."""
    if len(records) < HEADER_SIZE:
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no record batch"
        )
    header = read_header(records)
    if header.length < LENGTH_MIN or not 0 <= header.magic <= MAGIC:
        raise InvalidRecordsError(
            ErrorCode.CORRUPT_MESSAGE, f"length {header.length} or format {header.magic} is none"
        )
    if header.magic != MAGIC:
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, f"format {header.magic} is not supported"
        )
    if header.size > len(records):
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, f"a batch claims {header.size} bytes of {len(records)}"
        )
    if header.size != len(records):
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, "more than one batch for one partition in a request"
        )
    if header.base_offset != 0:
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, f"a new batch begins at offset 0, not {header.base_offset}"
        )
    return header


def _check_header(header: BatchHeader) -> None:
    if header.is_control:
        raise InvalidRecordsError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if header.attributes & ~KNOWN_ATTRIBUTES:
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, f"attributes {header.attributes:#x} are not a client's to set"
        )
    if header.record_count != header.last_offset_delta + 1 or header.record_count <= 0:
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records do not fit a last offset delta of {header.last_offset_delta}",
        )
    room = header.size - HEADER_SIZE if header.codec == Codec.NONE else DECOMPRESSED_BYTES_MAX
    if header.record_count * RECORD_SIZE_MIN > room:
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, f"{room} bytes have no room for {header.record_count} records"
        )
    if header.codec > Codec.ZSTD:
        raise InvalidRecordsError(ErrorCode.INVALID_RECORD, f"there is no codec {header.codec}")
    if header.is_log_append_time:
        raise InvalidRecordsError(
            ErrorCode.INVALID_TIMESTAMP, "a client may not claim the log's own time"
        )
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, "a batch of an idempotent producer needs epoch and sequence"
        )
    if header.is_transactional and header.producer_id < 0:
        raise InvalidRecordsError(
            ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id"
        )


def _target_codec(rules: ValidationRules, header: BatchHeader) -> int:
    if rules.compression_type == "producer":
        return header.codec
    return CODEC_NAMES[rules.compression_type]


def _timestamps_fit(header: BatchHeader, rules: ValidationRules, wall_ms: int) -> bool:
    """Whether the header alone shows that every record's timestamp is allowed: where it cannot, the
    records are looked at."""
    if rules.log_append_time:
        return True
    latest = header.max_timestamp
    if latest < header.base_timestamp or header.base_timestamp < NO_TIMESTAMP:
        return False
    if latest > wall_ms + rules.after_max_ms:
        return False
    # Records may be older than the first: only a bound that excludes nothing needs no look at them.
    return rules.before_max_ms >= 1 << 62 or (
        header.record_count == 1 and header.base_timestamp >= wall_ms - rules.before_max_ms
    )


def _timestamp_fault(timestamp: int, rules: ValidationRules, wall_ms: int) -> str | None:
    if rules.log_append_time or timestamp == NO_TIMESTAMP:
        return None
    if wall_ms - timestamp > rules.before_max_ms:
        return f"timestamp {timestamp} is older than message.timestamp.before.max.ms allows"
    if timestamp - wall_ms > rules.after_max_ms:
        return f"timestamp {timestamp} is later than message.timestamp.after.max.ms allows"
    if timestamp > TIMESTAMP_MAX:  # deltas have 70 bits
        return f"timestamp {timestamp} has more than 63 bits"
    return None


def _walk(
    header: BatchHeader, records: memoryview, rules: ValidationRules, wall_ms: int
) -> tuple[memoryview, int]:
    """Look at every record; the records in plain, and the largest timestamp. Raises
    :class:`InvalidRecordsError` that names the bad ones."""
    try:
        unpacked_max = max(UNPACKED_BYTES_MAX, rules.max_message_bytes)
        section = section_of(BatchView(header, 0, records), unpacked_max)
        spans = spans_of(section, header)
    except CorruptBatchError as error:
        raise InvalidRecordsError(ErrorCode.INVALID_RECORD, error.why) from error
    faults, code, base = list[RecordError](), ErrorCode.INVALID_RECORD, header.base_timestamp
    record_bytes_max = rules.record_bytes_max if header.codec else RECORD_BYTES_ANY
    for index, (start, end, offset_delta, timestamp_delta, key, _) in enumerate(spans):
        if offset_delta != index:
            faults.append(RecordError(index, f"its offset delta is {offset_delta}, not {index}"))
        elif end - start > record_bytes_max and _body_bytes(end - start) > record_bytes_max:
            faults.append(
                RecordError(index, "max.decompressed.message.bytes is less than its size")
            )
        elif rules.compact and key is None:
            faults.append(RecordError(index, "a compacted topic needs a key in every record"))
        elif fault := _timestamp_fault(base + timestamp_delta, rules, wall_ms):
            code = ErrorCode.INVALID_TIMESTAMP
            faults.append(RecordError(index, fault))
    if faults:
        raise InvalidRecordsError(code, "One or more records have been rejected", tuple(faults))
    return section, base + max(span[3] for span in spans)


def _body_bytes(record_bytes: int) -> int:
    """The size of a record without the varint that says it."""
    length = 1
    while record_bytes - length >= 1 << (7 * length - 1):
        length += 1
    return record_bytes - length


def _stamp(attributes: int, records: memoryview, latest: int) -> Validated:
    """The batch with other attributes and another largest timestamp (the log's own time, or what its
    records really have)."""
    data = bytearray(records)
    data[CRC_AT + 4 : CRC_AT + 6] = attributes.to_bytes(2, "big")
    data[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = latest.to_bytes(8, "big", signed=True)
    seal(data)
    return Validated(read_header(data), memoryview(data))


def _rewrite(
    header: BatchHeader, records: memoryview, rules: ValidationRules, wall_ms: int, codec: int
) -> Validated:
    """The same records with the topic's codec."""
    section, latest = _walk(header, records, rules, wall_ms)
    data = bytearray(HEADER_SIZE)
    data += compress(codec, section, rules.compression_level)
    attributes = (header.attributes & ~CODEC_MASK) | codec
    if rules.log_append_time:
        attributes, latest = attributes | LOG_APPEND_TIME, wall_ms
    write_header(
        data,
        header._replace(
            attributes=attributes, max_timestamp=latest, length=len(data) - LENGTH_PREFIX
        ),
    )
    return Validated(read_header(data), memoryview(data))
