"""Checks a segment's index of aborted transactions against its batches, and rebuilds wrong entries.

A ``.txnindex`` has no CRC; the batches have one. The check starts with the newest producer snapshot before
the segment and reads the segment's batch headers: these tell where the transaction of each abort marker
began. An entry is valid if it names an abort marker and its first offset is that of the transaction's first
remaining batch. As compaction may have removed earlier batches, it may also be an offset that is in no batch,
after the producer's previous marker and before the first remaining batch. Its last stable offset may be lower
than the batches say, but not higher: readers would stop too early.

Source: ``TransactionIndex.sanityCheck`` of Apache Kafka 4.3, which ends at the offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.log.errors import CorruptLogError
from barnabas.log.file_names import SNAPSHOT, file_name
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import Located, Segment
from barnabas.log.state.producer_state import ProducerStates, snapshot_offsets
from barnabas.ports import Disk
from barnabas.record.batch import CorruptBatchError
from barnabas.types import Buffer

Entry = tuple[int, int, int, int]
"""Producer id, first offset, last offset (the marker's), last stable offset."""


class AbortMarker(NamedTuple):
    """An abort marker in the segment, and its transaction according to the batches before it."""

    producer_id: int
    earliest: int
    """Lower bound of the transaction's first offset."""
    first_offset: int | None
    """Base offset of its first remaining batch; None if no batch remains."""
    last_offset: int
    last_stable_offset: int


class _Proof:
    """Checks the index of segment number `at` of `segments` (all of the log), below offset `end`."""

    def __init__(
        self, disk: Disk, directory: str, segments: Sequence[Segment], at: int, end: int
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.segments = segments
        self.at = at
        self.end = end

    def is_sound(self, entries: list[Entry]) -> bool:
        """Whether each marker with a remaining batch has one valid entry, in order, and no entry lacks a
        marker."""
        following = iter([entry for entry in entries if entry[2] < self.end])
        entry = next(following, None)
        for marker in self.markers(crc=False):
            if entry is not None and entry[2] == marker.last_offset:
                if not self.agree(entry, marker):
                    return False
                entry = next(following, None)
            elif marker.first_offset is not None:
                return False
        return entry is None

    def rebuilt(self, entries: list[Entry]) -> list[Entry]:
        """One entry per marker with a remaining batch: the existing one if it is valid, else a new one."""
        known, found = {entry[2]: entry for entry in entries}, list[Entry]()
        for marker in self.markers(crc=True):
            entry, first = known.get(marker.last_offset), marker.first_offset
            if entry is not None and self.agree(entry, marker):
                found.append(entry)
            elif first is not None:
                found.append(
                    (marker.producer_id, first, marker.last_offset, marker.last_stable_offset)
                )
        return found

    def agree(self, entry: Entry, marker: AbortMarker) -> bool:
        producer, first, _, stable = entry
        if producer != marker.producer_id or not 0 <= stable <= marker.last_stable_offset:
            return False
        if first == marker.first_offset:
            return True
        latest = marker.last_offset if marker.first_offset is None else marker.first_offset
        return marker.earliest <= first <= latest and not self._is_in_a_batch(first)

    def _is_in_a_batch(self, offset: int) -> bool:
        at = bisect_right([segment.base_offset for segment in self.segments], offset) - 1
        located = self.segments[at].locate(offset) if at >= 0 else None
        return located is not None and located.header.base_offset <= offset

    def markers(self, *, crc: bool) -> list[AbortMarker]:
        """The abort markers of the segment."""
        return _markers_of(self.disk, self.directory, self.segments, self.at, self.end, crc=crc)


def proven(
    disk: Disk, directory: str, segments: Sequence[Segment], at: int, end: int, data: Buffer
) -> list[Entry]:
    """The entries in `data`, the index of segment number `at`; if it is corrupt, entries rebuilt from the
    batches below `end`. `segments` are all of the log. Blocks. Raises :class:`CorruptLogError` if batches are
    corrupt, too, and ``OSError``."""
    proof = _Proof(disk, directory, segments, at, end)
    entries = transaction_index.entries_of(data)
    if len(data) % transaction_index.ENTRY.size == 0 and proof.is_sound(entries):
        return entries
    return proof.rebuilt(entries)


def _markers_of(
    disk: Disk, directory: str, segments: Sequence[Segment], at: int, end: int, *, crc: bool
) -> list[AbortMarker]:
    """The abort markers of segment number `at` below `end`."""
    states, ends, found = ProducerStates(), dict[int, int](), list[AbortMarker]()
    start = _load_before(disk, directory, segments[0].base_offset, segments[at].base_offset, states)
    floor = 0 if start is None else start
    walked = segments[: at + 1]
    for number, segment in enumerate(walked):
        if number < at and walked[number + 1].base_offset <= floor:
            continue  # the snapshot covers the whole segment
        for located in _ascending(segment, end, crc=crc):
            header = located.header
            producer = header.producer_id
            if producer < 0 or header.next_offset <= floor:
                continue
            marker, first = _marker_of(segment, located), states.open_transactions.get(producer)
            states.update(header, marker)
            if marker is None:
                continue
            last = header.last_offset
            if marker[0] and segment is segments[at]:
                earliest = floor if first is None else min(first, floor)
                stable = next(iter(states.open_transactions.values()), last + 1)
                found.append(
                    AbortMarker(producer, ends.get(producer, earliest), first, last, stable)
                )
            ends[producer] = last + 1
    return found


def _ascending(segment: Segment, end: int, *, crc: bool) -> Iterator[Located]:
    """The batches that end at or before `end`. Raises :class:`CorruptLogError` if offsets do not ascend."""
    known = segment.base_offset
    for located in segment.headers(crc=crc):
        header = located.header
        if header.next_offset > end:
            return
        if header.base_offset < known:  # no CRC covers it
            raise CorruptLogError(segment.path, located.position, "the offsets do not ascend")
        known = header.next_offset
        yield located


def _marker_of(segment: Segment, located: Located) -> tuple[bool, int] | None:
    if not located.header.is_control:
        return None
    try:
        return transaction_index.marker_of(located.header, segment.view(located).data)
    except CorruptBatchError as error:
        raise CorruptLogError(segment.path, located.position, error.why) from error


def _load_before(
    disk: Disk, directory: str, log_start: int, offset: int, states: ProducerStates
) -> int | None:
    """Load the newest producer snapshot at or before `offset`, the base offset of a segment. Returns its
    offset, which may be within an earlier segment (a clean shutdown takes a snapshot, too). None if the log
    has none: then the check reads from the first segment on."""
    for at in reversed(snapshot_offsets(disk, directory)):
        if log_start <= at <= offset:
            try:
                states.load(disk.read_file(f"{directory}/{file_name(at, SNAPSHOT)}"), at)
            except ValueError:
                continue
            return at
    return None
