"""The map of keys in machine code: what :class:`barnabas.log.compaction.compaction_rules.OffsetMap` does,
several times faster.

Needs the extra ``[fast]``; `available` says whether it is there. Both maps hold the same number of keys
and keep the same records, so that a round leaves the same bytes whichever did it. A batch that is not
plainly sound is looked at record by record, by the code that the other map uses.

Source: Kafka's ``SkimpyOffsetMap``.
"""

from __future__ import annotations

import numpy as np

from barnabas.log.compaction.compaction_rules import CleanedRun, OffsetMap, Retained, retained_of
from barnabas.log.segments.segment import Indexed, Indexing
from barnabas.record import batch_kernels, key_kernels
from barnabas.record.batch import BatchHeader
from barnabas.record.columnar_kernels import COMPILED, Bytes, frozen
from barnabas.record.key_kernels import SLOT_WORDS
from barnabas.record.spans import Span, spans_of

SLOTS_MIN = 1 << 16
FILLED_MAX = 0.7
SMALL_BYTES_MAX = 32 * 1024
"""Batches up to this size are done in runs."""


def available() -> bool:
    """Whether there is a compiler; without one the plain map is faster."""
    return COMPILED


class CompiledOffsetMap(OffsetMap):
    """`secret`: 16 random bytes, so that no client can choose keys that collide."""

    def __init__(self, keys_max: int, secret: bytes) -> None:
        super().__init__(keys_max)
        self._k0 = np.uint64(int.from_bytes(secret[:8], "little"))
        self._k1 = np.uint64(int.from_bytes(secret[8:16], "little"))
        self._used = self._uncounted = 0
        """Keys in the table; those of a batch that has to be looked at again do not count yet."""
        self._make_table(SLOTS_MIN)
        self._out = np.empty(1 << 16, np.uint8)
        self._ends = np.empty(1 << 10, np.int64)
        self._hashes = np.zeros(2 * key_kernels.RECORDS_AHEAD, np.uint64)
        self._rows = np.zeros(key_kernels.ROW_NUMBERS * key_kernels.RECORDS_AHEAD, np.int64)
        self._batches = np.zeros(2 * key_kernels.RECORDS_AHEAD, np.int64)

    def _make_table(self, slots: int) -> None:
        self._slots = np.zeros(slots * SLOT_WORDS, np.uint64)

    def is_full(self) -> bool:
        return self._used >= self.keys_max

    def __len__(self) -> int:
        return self._used

    @property
    def _room(self) -> int:
        """Keys that the table takes."""
        return int(len(self._slots) // SLOT_WORDS * FILLED_MAX)

    def _make_room(self, more: int) -> None:
        old, slots = self._slots, len(self._slots) // SLOT_WORDS
        while self._used + more > slots * FILLED_MAX:
            slots *= 2
        if slots * SLOT_WORDS > len(old):
            self._make_table(slots)
            key_kernels.rehash(old, self._slots)

    def put_keys(self, section: memoryview, header: BatchHeader, from_offset: int) -> None:
        data = _view(section)
        # A record takes 7 bytes at least: a count that lies asks for no more room than that.
        self._make_room(min(header.record_count, len(data) // 7 + 1))
        code, new = key_kernels.note_records(
            data, 0, len(data), header.record_count, header.base_offset, from_offset,
            self._k0, self._k1, self._slots, self._hashes, self._rows,
        )  # fmt: skip
        self._used += new + self._uncounted
        self._uncounted = 0
        if code != key_kernels.OK:
            self._put_spans(spans_of(section, header), header.base_offset, from_offset)

    def _put_spans(self, spans: list[Span], base: int, from_offset: int) -> None:
        for _, _, delta, _, key, _ in spans:
            if key is not None and base + delta >= from_offset:
                self._used += key_kernels.put_key(
                    _view(key), base + delta, self._k0, self._k1, self._slots
                )

    def note_run(
        self, window: memoryview, low: int, high: int, from_offset: int
    ) -> tuple[int, int]:
        size, end, self._used, uncounted = batch_kernels.note_run(
            _view(window), SMALL_BYTES_MAX, low, high, from_offset, self._used, self.keys_max,
            self._room, self._k0, self._k1, self._slots, self._hashes, self._rows, self._batches,
        )  # fmt: skip
        # Where other batches came before it, the one to be looked at comes here again.
        self._uncounted += uncounted
        return size, end

    def clean_run(
        self, window: memoryview, low: int, high: int, round_end: int
    ) -> CleanedRun | None:
        if len(window) > len(self._out):
            self._out = np.empty(len(window), np.uint8)
        size, end, written, records = batch_kernels.clean_run(
            _view(window), SMALL_BYTES_MAX, low, high, self.end, round_end,
            self._k0, self._k1, self._slots, self._hashes, self._rows, self._batches, self._out,
        )  # fmt: skip
        if not size:
            return None
        data = window[:size] if written == size else self._out[:written].tobytes()
        return CleanedRun(size, end, data, records)

    def index_run(self, data: bytes, place: Indexing) -> Indexed | None:
        room = (place.since_index + len(data)) // (place.interval + 1) + 1
        entries = np.empty(room * batch_kernels.ENTRY_NUMBERS, np.int64)
        count, since, latest, offset = batch_kernels.index_run(
            _view(data), place.position, place.interval, place.since_index,
            place.max_timestamp, place.offset_of_max_timestamp, entries,
        )  # fmt: skip
        found = entries[: count * batch_kernels.ENTRY_NUMBERS].reshape(
            count, batch_kernels.ENTRY_NUMBERS
        )
        return Indexed(found.tolist(), since, latest, offset)

    def staying(self, section: memoryview, header: BatchHeader, keep_deletes: bool) -> Retained:
        data = _view(section)
        count = min(header.record_count, len(data))
        if len(data) > len(self._out):
            self._out = np.empty(len(data), np.uint8)
        if count > len(self._ends):
            self._ends = np.empty(count, np.int64)
        code, kept, size, all_values, latest = key_kernels.keep_records(
            data, count, header.base_offset, self.end, keep_deletes,
            self._k0, self._k1, self._slots, self._hashes, self._rows, self._out, self._ends,
        )  # fmt: skip
        if code != key_kernels.OK or count != header.record_count:
            return self._spans_staying(section, header, keep_deletes)
        stays = self._ends[:count] > 0

        def spans() -> list[Span]:
            return [span for span, stay in zip(spans_of(section, header), stays) if stay]

        return Retained(
            kept, bool(all_values), latest if kept else 0, lambda: self._out[:size].data, spans
        )

    def _spans_staying(
        self, section: memoryview, header: BatchHeader, keep_deletes: bool
    ) -> Retained:
        kept = []
        for span in spans_of(section, header):
            offset, key = header.base_offset + span[2], span[4]
            if offset >= self.end or (
                key is not None and (span[5] or keep_deletes) and offset >= self._last(key)
            ):
                kept.append(span)
        return retained_of(section, kept)

    def warm_up_single_keys(self) -> None:
        """Compile what handles one key at a time."""
        self._put_spans([(0, 0, 0, 0, b"key", True)], 0, 0)
        self._last(b"key")
        self._make_room(SLOTS_MIN)

    def _last(self, key: bytes) -> int:
        return int(key_kernels.last_offset_of_key(_view(key), self._k0, self._k1, self._slots))


def _view(data: bytes | memoryview) -> Bytes:
    return frozen(np.frombuffer(data, np.uint8))


def warm_up() -> None:
    """Have everything compiled, or loaded from where compiled code is kept."""
    keys = CompiledOffsetMap(1, bytes(16))
    header = BatchHeader(0, 49, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 0)
    keys.put_keys(memoryview(b""), header, 0)
    keys.staying(memoryview(b""), header, True)
    keys.note_run(memoryview(b""), 0, 0, 0)
    keys.clean_run(memoryview(b""), 0, 0, 0)
    keys.index_run(b"", Indexing(0, 0, 0, 0, 0))
    keys.warm_up_single_keys()
