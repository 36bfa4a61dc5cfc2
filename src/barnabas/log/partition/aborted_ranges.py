"""The aborted transactions that touch a range of offsets: rot shows no aborted record, and hides no other.

A segment remembers the length and CRC of its ``.txnindex`` as this process wrote or proved it. What differs
from that is held against the batches (:mod:`barnabas.log.partition.aborted_proof`) before an entry counts,
and written once more where it is damaged. After a start that costs one walk over the headers of each segment
with such an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.partition import aborted_proof
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import Segment

if TYPE_CHECKING:
    from barnabas.log.partition.segmented_log import SegmentedLog


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
    if transaction_index.seal_of(data) == segment.aborted_seal:
        entries = transaction_index.entries_of(data)
    else:
        entries = _prove(log, segment, data)
    found += [(entry[0], entry[1]) for entry in entries if entry[2] >= start and entry[1] < end]
    return any(entry[3] >= end for entry in entries)


def _prove(log: SegmentedLog, segment: Segment, data: bytes) -> list[aborted_proof.Entry]:
    """The entries as the batches have them; the file says the same afterwards. An entry that the log's owner
    appends meanwhile and that the new file lacks differs from the seal: the next reader comes here again."""
    at, end = log.segment_index(segment.base_offset), log.log_end_offset
    if log.segments[at] is not segment:
        return transaction_index.entries_of(data)  # compaction has just put another in its place
    entries = aborted_proof.proven(log.disk, log.directory, log.segments, at, end, data)
    sound = transaction_index.bytes_of(entries)
    if sound != data:
        path = segment.transaction_index_path
        log.files.on_rebuilt(path, "its entries are not those of the batches")
        log.files.close(path)
        log.disk.write_atomic(path, sound)
        log.files.close(path)  # the owner may have opened the one before
    segment.aborted_seal = transaction_index.seal_of(sound)
    return entries
