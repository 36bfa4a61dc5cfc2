"""The aborted transactions of a segment, held against its markers: rot shows no aborted record.

A ``.txnindex`` has no CRC. Before an entry counts for the first time, its marker is looked up in the
segment's batches, which have one; where it is not there, or the entries do not ascend within the segment, the
index is written once more from the batches. Not seen: an entry whose first offset rotted to another
plausible one, and an index that lost whole entries at its end.

Source: ``TransactionIndex.sanityCheck`` of Apache Kafka 4.3, which ends at the offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.file_names import SNAPSHOT, file_name
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import Segment
from barnabas.log.state.producer_state import ProducerStates, snapshot_offsets

if TYPE_CHECKING:
    from barnabas.log.partition.segmented_log import SegmentedLog

Entry = tuple[int, int, int, int]
"""Producer id, first offset, last offset (the marker's), last stable offset."""


def collect(
    log: SegmentedLog, segment: Segment, start: int, end: int, found: list[tuple[int, int]]
) -> bool:
    """Add what touches [start, end) to `found`; True where no later segment can add to it. Blocks. Raises
    :class:`CorruptLogError` if the index has to be rebuilt from batches that rotted, ``OSError``."""
    if segment.has_no_aborted:
        return False
    path = segment.transaction_index_path
    if not log.disk.exists(path):
        segment.has_no_aborted = True
        return False
    data = log.disk.read_file(path)
    entries = transaction_index.entries_of(data)
    touching = [entry for entry in entries if entry[2] >= start and entry[1] < end]
    if len(data) % transaction_index.ENTRY.size or not _are_sound(log, segment, entries, touching):
        entries = rewrite(log, segment)
        touching = [entry for entry in entries if entry[2] >= start and entry[1] < end]
    found += [(entry[0], entry[1]) for entry in touching]
    return any(entry[3] >= end for entry in entries)


def _are_sound(
    log: SegmentedLog, segment: Segment, entries: list[Entry], touching: list[Entry]
) -> bool:
    before, bound = (
        segment.base_offset - 1,
        log.end_of_segment(log.segment_index(segment.base_offset)),
    )
    for _, first, last, stable in entries:
        if not (0 <= first <= last and before < last < bound and stable >= 0):
            return False
        before = last
    for entry in touching:
        if entry not in segment.aborted_checked:
            if not _has_marker(segment, entry):
                return False
            segment.aborted_checked.add(entry)
    return True


def _has_marker(segment: Segment, entry: Entry) -> bool:
    located = segment.locate(entry[2])
    if located is None:
        return False
    header = located.header
    return header.is_control and header.producer_id == entry[0] and header.last_offset == entry[2]


def rewrite(log: SegmentedLog, segment: Segment) -> list[Entry]:
    """Make the index from the batches. Blocks. Raises :class:`CorruptLogError`, ``OSError``."""
    entries = _from_batches(log, segment)
    path = segment.transaction_index_path
    log.files.close(path)
    data = b"".join(transaction_index.ENTRY.pack(0, *entry) for entry in entries)
    log.disk.write_atomic(path, data)
    segment.aborted_checked.clear()
    return entries


def _from_batches(log: SegmentedLog, segment: Segment) -> list[Entry]:
    states, entries = ProducerStates(), list[Entry]()
    offset = _load_before(log, segment, states)
    for each in log.segments[log.segment_index(offset) :]:
        if each.base_offset > segment.base_offset:
            break
        position = each.position_of_batch_with(max(offset, each.base_offset))
        for located in () if position is None else each.headers(position):
            header, marker = located.header, None
            if header.producer_id < 0:
                continue
            if header.is_control:
                marker = transaction_index.marker_of(header, each.view(located).data)
            done = states.update(header, marker)
            if done is not None and done.aborted and each is segment:
                stable = states.stable_behind(done)
                entries.append((done.producer_id, done.first_offset, done.last_offset, stable))
    return entries


def _load_before(log: SegmentedLog, segment: Segment, states: ProducerStates) -> int:
    """Load the newest producer snapshot at or before the segment's beginning; the offset to continue from."""
    for offset in reversed(snapshot_offsets(log.disk, log.directory)):
        if log.bases[0] <= offset <= segment.base_offset:
            try:
                path = f"{log.directory}/{file_name(offset, SNAPSHOT)}"
                states.load(log.disk.read_file(path), offset)
            except ValueError:
                continue
            return offset
    states.clear(log.bases[0])
    return log.bases[0]
