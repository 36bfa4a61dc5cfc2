"""The rules by which compaction keeps parts of a batch: bytes, no files.

A record stays where it is the last of its key below the map's end; a tombstone also goes once its batch's
delete horizon has passed (KIP-534). Records of aborted transactions go; a marker goes after the last
record of its transaction, and after its own horizon. The last batch of every live producer and of the
round stay as empty headers, so that sequences and the log's end are not forgotten. Offsets never
change; a batch that loses records keeps its header's range and codec.

Source: ``Cleaner``, ``CleanedTransactionMetadata`` and ``MemoryRecords.filterTo`` of Apache Kafka 4.3 for
behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from barnabas.log.segments.segment import Indexed, Indexing
from barnabas.record.batch import (
    CODEC_MASK,
    HAS_DELETE_HORIZON,
    HEADER_SIZE,
    BatchHeader,
    BatchView,
    write_header,
)
from barnabas.record.builder import write_varint
from barnabas.record.compression import compress
from barnabas.record.decode import read_varint
from barnabas.record.spans import Span, section_of, spans_of
from barnabas.record.validate import TIMESTAMP_MAX
from barnabas.types import Buffer

KEY_BYTES_MAX = 32
"""Longer keys are remembered by a digest of one byte more."""
KEY_COST = 160
"""Bytes that an entry of the map takes, about."""


class Retained(NamedTuple):
    """The records that stay of a batch."""

    records: int
    all_have_values: bool
    latest_delta: int
    """Largest timestamp delta."""
    body: Callable[[], Buffer]
    """Their bytes, unchanged."""
    spans: Callable[[], list[Span]]


class OffsetMap:
    """Last offset by key, of a bounded number of keys. `end`: it speaks of offsets below.
    :class:`barnabas.log.compaction.compiled_offset_map.CompiledOffsetMap` is the same in machine code."""

    def __init__(self, keys_max: int) -> None:
        self.keys_max = keys_max
        self.offsets: dict[bytes, int] = {}
        self.end = 0

    def is_full(self) -> bool:
        return len(self.offsets) >= self.keys_max

    def put_keys(self, section: memoryview, header: BatchHeader, from_offset: int) -> None:
        """Take the keys of a batch's records at or behind `from_offset`. Raises
        :class:`CorruptBatchError`."""
        offsets, base = self.offsets, header.base_offset
        for _, _, delta, _, key, _ in spans_of(section, header):
            if key is not None and base + delta >= from_offset:
                offsets[key if len(key) <= KEY_BYTES_MAX else map_key(key)] = base + delta

    def note_run(
        self, window: memoryview, low: int, high: int, from_offset: int
    ) -> tuple[int, int]:
        """Take the keys of as many of the batches at the front of `window` as can be done at once; their
        offsets must lie in [low, high). (Their bytes, the offset behind them); 0 bytes where the first one
        needs a closer look."""
        return 0, low

    def clean_run(
        self, window: memoryview, low: int, high: int, round_end: int
    ) -> CleanedRun | None:
        """Likewise what stays of the batches at the front of `window`; None for a closer look."""
        return None

    def index_run(self, data: bytes, place: Indexing) -> Indexed | None:
        """The index entries of the whole batches in `data`, which are appended at `place`; None for a look
        at each. A map that does runs does this as well."""
        return None

    def staying(self, section: memoryview, header: BatchHeader, keep_deletes: bool) -> Retained:
        """The records that are the last of their key, or behind what the map knows. Raises
        :class:`CorruptBatchError`."""
        last, end, base, kept = self.offsets.get, self.end, header.base_offset, list[Span]()
        for span in spans_of(section, header):
            offset, key = base + span[2], span[4]
            if offset >= end:
                kept.append(span)
            elif key is not None and (span[5] or keep_deletes):
                if offset >= last(key if len(key) <= KEY_BYTES_MAX else map_key(key), -1):
                    kept.append(span)
        return retained_of(section, kept)


class CleanedRun(NamedTuple):
    """The rest of a run of batches."""

    size: int
    """Bytes of the run."""
    end: int
    """The offset behind it."""
    data: Buffer
    """The batches that stay, as they are."""
    records: int


def retained_of(section: memoryview, kept: list[Span]) -> Retained:
    return Retained(
        len(kept),
        all(span[5] for span in kept),
        max((span[3] for span in kept), default=0),
        lambda: bytearray().join(section[span[0] : span[1]] for span in kept),
        lambda: kept,
    )


def map_key(key: bytes) -> bytes:
    """The form of `key` in the map: itself, or its digest if it is long."""
    if len(key) <= KEY_BYTES_MAX:
        return key
    return blake2b(key, digest_size=KEY_BYTES_MAX + 1).digest()


class TrailedTransaction(NamedTuple):
    """An entry of the ``.txnindex``. Ascends by first offset."""

    first_offset: int
    last_offset: int
    producer_id: int
    last_stable_offset: int


class TransactionTrail:
    """Which transactions the batches so far belong to; batches come in order."""

    def __init__(self, aborted: Iterable[TrailedTransaction] = ()) -> None:
        self._coming = sorted(aborted, reverse=True)
        self._aborted: dict[int, tuple[TrailedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self.kept: list[TrailedTransaction] = []
        """Aborted transactions of which something was still there: the new index."""

    def on_data(self, header: BatchHeader) -> bool:
        """Whether the batch is of an aborted transaction."""
        self.advance(header.last_offset)
        if not header.is_transactional:
            return False
        producer = header.producer_id
        found = self._aborted.get(producer)
        if found is not None:
            self._aborted[producer] = (found[0], True)
            return True
        self._committed.add(producer)
        return False

    def on_marker(self, header: BatchHeader, aborted: bool) -> bool:
        """Whether nothing of the marker's transaction is there any more."""
        self.advance(header.last_offset)
        producer = header.producer_id
        if not aborted:
            was_there = producer in self._committed
            self._committed.discard(producer)
            return not was_there
        found = self._aborted.pop(producer, None)
        if found is None or not found[1]:
            return True
        self.kept.append(found[0])
        return False

    def advance(self, offset: int) -> None:
        """Plain batches up to `offset` were passed over."""
        while self._coming and self._coming[-1].first_offset <= offset:
            entry = self._coming.pop()
            self._aborted.setdefault(entry.producer_id, (entry, False))


class CompactionRules(NamedTuple):
    """The rules of one round."""

    now_ms: int
    delete_retention_ms: int
    last_offsets: Mapping[int, tuple[int, int]]
    """The last data offset (or -1) and the epoch of each live producer."""
    round_end: int
    """Offset behind the last batch of the round."""


class CompactedBatch(NamedTuple):
    """The bytes that stay of a batch (none: it goes), and how many records they have."""

    data: Buffer | None
    header: BatchHeader
    records: int


def note_keys(batch: BatchView, keys: OffsetMap, from_offset: int) -> None:
    """Put the keys of a data batch into the map. Raises :class:`CorruptBatchError`."""
    keys.put_keys(section_of(batch), batch.header, from_offset)


def compact_batch(
    batch: BatchView,
    keys: OffsetMap,
    trail: TransactionTrail,
    rules: CompactionRules,
    marker_aborted: bool | None,
) -> CompactedBatch:
    """The rest of `batch`; `marker_aborted` is what a transaction marker says, None for others.
    Raises :class:`CorruptBatchError`."""
    header = batch.header
    if header.is_control:
        return _compact_control(batch, trail, rules, marker_aborted)
    discard = trail.on_data(header)
    keep_empty = _is_last_of_producer(header, rules) or header.next_offset == rules.round_end
    if discard or header.record_count == 0:
        return _emptied(header, rules) if keep_empty else CompactedBatch(None, header, 0)
    section = section_of(batch)
    horizon = _delete_horizon(header)
    staying = keys.staying(section, header, horizon is None or rules.now_ms < horizon)
    if not staying.records:
        return _emptied(header, rules) if keep_empty else CompactedBatch(None, header, 0)
    new_horizon = None
    if horizon is None and not staying.all_have_values:
        new_horizon = rules.now_ms + rules.delete_retention_ms
    if staying.records == header.record_count and new_horizon is None:
        return CompactedBatch(batch.data, header, staying.records)
    return _rewritten(header, section, staying, new_horizon)


def _compact_control(
    batch: BatchView, trail: TransactionTrail, rules: CompactionRules, marker_aborted: bool | None
) -> CompactedBatch:
    header = batch.header
    keep_empty = _is_last_of_producer(header, rules) or header.next_offset == rules.round_end
    if not header.record_count:
        return CompactedBatch(batch.data if keep_empty else None, header, 0)
    if marker_aborted is None:
        return CompactedBatch(batch.data, header, header.record_count)
    done = trail.on_marker(header, marker_aborted)
    horizon = _delete_horizon(header)
    if done and horizon is not None and horizon <= rules.now_ms:
        return _emptied(header, rules) if keep_empty else CompactedBatch(None, header, 0)
    if done and horizon is None:
        section = section_of(batch)
        staying = retained_of(section, spans_of(section, header))
        return _rewritten(header, section, staying, rules.now_ms + rules.delete_retention_ms)
    return CompactedBatch(batch.data, header, header.record_count)


def _delete_horizon(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & HAS_DELETE_HORIZON else None


def _is_last_of_producer(header: BatchHeader, rules: CompactionRules) -> bool:
    found = rules.last_offsets.get(header.producer_id) if header.producer_id >= 0 else None
    if found is None:
        return False
    offset, epoch = found
    if offset >= 0:
        return header.last_offset == offset
    return header.is_control and header.producer_epoch == epoch


def _emptied(header: BatchHeader, rules: CompactionRules) -> CompactedBatch:
    """A header without records, over the same range of offsets."""
    data = bytearray(HEADER_SIZE)
    new = header._replace(
        length=HEADER_SIZE - 12,
        attributes=header.attributes & ~(CODEC_MASK | HAS_DELETE_HORIZON),
        base_timestamp=-1,
        record_count=0,
    )
    write_header(data, new)
    return CompactedBatch(data, new, 0)


def _rewritten(
    header: BatchHeader, section: memoryview, staying: Retained, horizon: int | None
) -> CompactedBatch:
    """The batch with the records that stay only; with `horizon` as its base timestamp where given."""
    base, attributes = header.base_timestamp, header.attributes
    if horizon is None:
        body = staying.body()
    else:
        body = _shifted(section, staying.spans(), base - horizon)
        attributes |= HAS_DELETE_HORIZON
    latest = header.max_timestamp
    if not header.is_log_append_time:
        # The delta may lead beyond the maximum if the leader did not validate the batch.
        latest = min(base + staying.latest_delta, TIMESTAMP_MAX)
    data = bytearray(HEADER_SIZE)
    data += compress(header.codec, body)
    new = header._replace(
        attributes=attributes,
        base_timestamp=base if horizon is None else horizon,
        max_timestamp=latest,
        record_count=staying.records,
        length=len(data) - 12,
    )
    write_header(data, new)
    return CompactedBatch(data, new, staying.records)


def _shifted(section: memoryview, kept: list[Span], shift: int) -> bytearray:
    """Records whose timestamp deltas count from another base: `shift` is added to each."""
    out = bytearray()
    for start, end, _, stamp, _, _ in kept:
        _, position = read_varint(section, start)
        body = bytearray(section[position : position + 1])
        _, behind = read_varint(section, position + 1)
        write_varint(stamp + shift, body)
        body += section[behind:end]
        write_varint(len(body), out)
        out += body
    return out
