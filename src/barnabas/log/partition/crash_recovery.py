"""Recovery of a log after a crash: the batches behind the recovery point are read and checked.

The first batch that is cut off, or whose CRC does not match, ends the log; later segments are dropped. Where
an older segment reaches into a newer one (a cut that a power loss undid), the newer one holds. Offsets that
are missing between two segments were lost with the first one's tail, unless compaction has been there.

Source: Kafka's ``LogLoader.recoverLog`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from barnabas.log.config import FOREVER_MS
from barnabas.log.errors import CorruptLogError
from barnabas.log.partition.bulk_recovery import check_plain
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments.segment import (
    CHECK_BYTES,
    SCAN_BYTES,
    Segment,
    has_timestamp,
    is_between,
    remove,
)
from barnabas.log.state.epoch_runs import EpochRuns
from barnabas.record.batch import HEADER_SIZE, LENGTH_PREFIX, MAGIC, BatchHeader, read_header


class Cut(NamedTuple):
    """The part that recovery dropped."""

    size: int = 0
    fault: str = ""


BeforeCut = Callable[[Segment, int, int], None]
"""Receives (segment, position, offset) where the log will end before the rest is dropped; may refuse."""


class LogScan:
    """The facts about the batches behind the recovery point besides their bytes, so that they are read
    once."""

    __slots__ = ("compacted_to", "epochs", "from_offset", "has_gaps", "has_producers")

    def __init__(self, from_offset: int, compacted_to: int = 0, has_gaps: bool = True) -> None:
        self.from_offset = from_offset
        """All batches that end behind it were seen."""
        self.compacted_to = compacted_to
        """Between segments that begin up to here offsets may be missing."""
        self.has_gaps = has_gaps
        """Whether offsets may be missing between batches."""
        self.epochs = EpochRuns()
        self.has_producers = False

    def allows_gap(self, end: int, following: int) -> bool:
        """Whether a segment may end at offset `end`, and the next begin at `following`: compaction has been
        there, or must have been, for what was below the recovery point was durable."""
        return following <= self.compacted_to or (self.has_gaps and end < self.from_offset)

    def add_batch(self, header: BatchHeader) -> None:
        self.epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            self.has_producers = True


def recover(log: PartitionLog, seen: LogScan, before_cut: BeforeCut | None) -> Cut:
    """Check what the recovery point does not vouch for. No CRC covers leader epochs: where they descend one
    of them rotted, which its reader finds and has mended. (A quorum's log, which never has gaps, is looked
    through by its owner.)"""
    at = log.segment_index(seen.from_offset)
    cut = _recover_from(log, at, seen, before_cut)
    if seen.epochs.descend and seen.has_gaps:
        for segment in log.segments[at:]:
            segment.checked.clear(segment.size)
    return cut


def _recover_from(log: PartitionLog, at: int, seen: LogScan, before_cut: BeforeCut | None) -> Cut:
    size, recovery_point = 0, seen.from_offset
    if at:
        _complete_indexes(log.segments[at - 1], log.bases[at])
    while at < len(log.segments):
        following = log.bases[at + 1] if at + 1 < len(log.segments) else None
        cut = recover_segment(log.segments[at], recovery_point, following, seen, before_cut)
        size += cut.size
        if cut.fault:
            for later in reversed(log.segments[at + 1 :]):
                size += later.size
                remove(log.disk, later)
            if at + 1 < len(log.segments):
                log.disk.sync_dir(log.directory)
            del log.segments[at + 1 :]
            log.index_segments()
            return Cut(size, cut.fault)
        at += 1
    return Cut(size, "")


def _complete_indexes(segment: Segment, following: int) -> None:
    """The last segment that the recovery point vouches for, which the one at `following` follows: its batches
    are durable, but the last entry of its time index may have come after that."""
    try:
        segment.find_end()
        segment.finish()
    except CorruptLogError as error:
        # It was given back, but not durably. (An index that rotted may point behind the end of the file, and
        # batches may have become zeros.)
        if 0 <= error.position < segment.size and _is_padding(segment, error.position):
            if segment.end_before(following) == (following, error.position):
                segment.file().truncate(error.position)
                segment.size = error.position
        segment.index.say_rebuilt(str(error))
        with suppress(CorruptLogError):  # a batch rotted: reported when it is read
            segment.rebuild_indexes()


def recover_segment(
    segment: Segment,
    recovery_point: int,
    following: int | None,
    seen: LogScan | None = None,
    before_cut: BeforeCut | None = None,
) -> Cut:
    """Cut `segment` behind its last sound batch, or where the segment that begins at `following` takes
    over. Reports a fault only if the log has to end here. Reads the batches once, which rebuilds the
    indexes and passes the batches to `seen`."""
    start, next_offset, indexed_to = _position_of_recovery_point(segment, recovery_point)
    _note_before(segment, start, indexed_to)
    end, least, fault = start, next_offset, ""
    exact = seen is not None and not seen.has_gaps
    reach = max(next_offset, recovery_point) if exact else FOREVER_MS
    note = segment.update_for_batch
    try:
        if seen is not None:
            most = FOREVER_MS if following is None else following
            end, next_offset = check_plain(segment, start, next_offset, most, seen.epochs, reach)
            least = next_offset
            if exact and end > start:
                reach = least
        for header, position in segment.headers(end, crc=True):
            base = header[0]  # by index: a log may have a million batches
            last = base + header[6]
            if base < least or segment.would_overflow(last):
                raise CorruptLogError(segment.path, position, "the offsets do not ascend")
            if base > reach:  # no CRC covers offsets
                raise CorruptLogError(segment.path, position, "offsets are missing")
            if base > least and _reaches_beyond_next(segment, header, position, least):
                raise CorruptLogError(segment.path, position, "its offset is beyond the next one's")
            least = last + 1
            if exact:
                reach = least
            if following is not None and least > following:
                break
            size = header[1] + LENGTH_PREFIX
            note(header, position, size)
            if seen is not None:
                seen.add_batch(header)
            end, next_offset = position + size, least
    except CorruptLogError as error:
        fault = "" if _is_padding(segment, end, SCAN_BYTES) else str(error)
    cut = segment.size - end
    if following is None:
        if cut and not fault and not _is_padding(segment, end, SCAN_BYTES):
            fault = f"{segment.path}: {cut} bytes at the end are no whole batch"
    elif next_offset == following:
        fault = ""
    elif not fault and not cut and seen is not None and seen.allows_gap(next_offset, following):
        pass  # what was in between has newer values
    elif not (fault or cut or exact or seen is None) and segment.would_overflow(following - 1):
        pass  # nothing of this segment can have been right before: the leader's compaction left the gap
    else:
        # A segment begins where the one before it ended: something is missing in between.
        fault = fault or f"{segment.path} ends before offset {following}, where the log continues"
    if fault and before_cut is not None:
        before_cut(segment, end, next_offset)
    if cut:
        segment.file().truncate(end)
        segment.size = end
        if fault:  # the next loss of power must not bring it back behind what will be written here
            segment.file().sync()
    segment.write_indexes(complete=True)
    segment.checked.trust_from(start)
    return Cut(cut, fault)


def _reaches_beyond_next(segment: Segment, header: BatchHeader, position: int, least: int) -> bool:
    """Whether a batch behind a gap reaches beyond the one that follows, for which there would be room without
    the gap: its own offset rotted, not the next one's."""
    data = segment.file().read_at(position + header.size, HEADER_SIZE)
    if len(data) < HEADER_SIZE:
        return False
    following = read_header(data)
    return (
        following.magic == MAGIC
        and following.base_offset < header.next_offset
        and following.base_offset - least > header.last_offset_delta
    )


def _is_padding(segment: Segment, position: int, reach: int | None = None) -> bool:
    """Whether the file continues with zeros (for `reach` bytes, to its end where None): room that was
    preallocated and never written."""
    file, end = segment.file(), segment.size if reach is None else position + reach
    for start in range(position, end, CHECK_BYTES):
        data = file.read_at(start, min(CHECK_BYTES, end - start))
        if data.count(0) != len(data):
            return False
    return True


def _note_before(segment: Segment, start: int, indexed_to: int) -> None:
    """Rebuild the index entries that are behind the last right one and before `start`."""
    position = segment.begin_indexes(start, indexed_to)
    if not _has_its_last_time(segment):
        segment.time_index.say_rebuilt("an entry names no batch of its timestamp")
        with suppress(CorruptLogError):  # a batch rotted: the entries before it are right
            segment.rebuild_indexes()
        position = segment.begin_indexes(start, indexed_to)
    if position < start:
        for header, at in segment.headers(position):
            segment.update_for_batch(header, at, header.size)
            if at + header.size >= start:
                break


def _has_its_last_time(segment: Segment) -> bool:
    """Whether the batch that the last entry of the time index names has its timestamp: a power loss may have
    left anything in a file that was not synced."""
    if segment.time_index.last is None:
        return True
    try:
        return has_timestamp(segment, segment.max_timestamp)
    except CorruptLogError:
        return False


class Start(NamedTuple):
    """The place where the batches begin that the recovery point does not vouch for."""

    position: int
    offset: int
    """Behind the batches that were passed on the way there."""
    indexed_to: int
    """Index entries below this offset are right."""


def _position_of_recovery_point(segment: Segment, recovery_point: int) -> Start:
    """The first batch that ends behind the recovery point, without a look at the CRCs before it."""
    base = segment.base_offset
    if recovery_point <= base:
        return Start(0, base, base)
    if not segment.index.is_sound() or not segment.time_index.is_sound():
        segment.index.say_rebuilt("the entries of an index do not ascend, or one is not whole")
        try:
            segment.rebuild_indexes()
        except CorruptLogError:
            pass  # the tail is torn; the entries before it are right
    position, least = segment.index.place_below(recovery_point - base)
    offset = indexed_to = base
    if position and not _is_batch_at(segment, position, base + least, recovery_point):
        position = 0  # the entry rotted: rebuild all
    else:
        indexed_to = recovery_point
    try:
        for header, at in segment.headers(position):
            if header.next_offset > recovery_point:
                return Start(at, offset, indexed_to)
            offset, position = header.next_offset, at + header.size
        return Start(position, offset, indexed_to)
    except CorruptLogError as error:
        return Start(min(error.position, segment.size), offset, indexed_to)


def _is_batch_at(segment: Segment, position: int, least: int, most: int) -> bool:
    """Whether a batch begins there, at an offset between these."""
    try:
        return is_between(next(segment.headers(position), None), least, most)
    except CorruptLogError:
        return False
