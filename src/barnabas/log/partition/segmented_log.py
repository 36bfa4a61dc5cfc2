"""The segments of one log, and reads by offset, by timestamp and by transaction.

`segments` ascend by base offset; an open log has at least one, and the last one is active. A read returns a
run of bytes of one segment, as it is on disk. Disk errors are ``OSError``. Corrupt batches raise
:class:`CorruptLogError` and are never served.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError, OffsetOutOfRange
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import LEADER_EPOCH
from barnabas.log.partition import aborted_ranges, timestamp_lookup
from barnabas.log.partition.timestamp_lookup import Stamped
from barnabas.log.segments.checked_range import SHORTER, check_run
from barnabas.log.segments.segment import Segment
from barnabas.log.state.leader_epoch_cache import LeaderEpochCache
from barnabas.ports import Disk
from barnabas.record.batch import (
    HEADER_SIZE,
    LENGTH_PREFIX,
    OFFSET_AND_LENGTH,
    read_header,
)
from barnabas.types import Buffer, TopicPartition, new_tuple

EPOCH_MAX = (1 << 31) - 1


class ReadResult(NamedTuple):
    """A run of bytes that may end inside a batch; `first_position` is its position in the segment, in
    bytes."""

    records: Buffer
    first_position: int
    segment_base: int


EMPTY = ReadResult(b"", 0, 0)


class SegmentedLog:
    """The files of a log, for reading. :class:`barnabas.log.partition.partition_log.PartitionLog` writes."""

    def __init__(
        self,
        disk: Disk,
        files: FileCache,
        directory: str,
        partition: TopicPartition,
        config: LogConfig,
    ) -> None:
        self.disk = disk
        self.files = files
        self.directory = directory
        self.partition = partition
        self.config = config
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        """Base offsets of `segments`."""
        self.epochs = LeaderEpochCache(disk, f"{directory}/{LEADER_EPOCH}")
        self.log_start_offset = 0
        self.log_end_offset = 0

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def log_dir(self) -> str:
        """The log directory (of ``log.dirs``) that has this log. Background jobs queue per log directory, so
        that a disk that hangs delays no other."""
        return self.directory.rpartition("/")[0]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def index_segments(self) -> None:
        """Update `bases` after `segments` changed."""
        self.bases = [segment.base_offset for segment in self.segments]

    def segment_index(self, offset: int) -> int:
        """The index in `segments` of the one that would hold `offset`; 0 if it is before all of them."""
        return (bisect_right(self.bases, offset) or 1) - 1

    def end_of_segment(self, at: int) -> int:
        """The end offset of the `at`-th segment: the next one's base offset, or the log end offset."""
        return self.bases[at + 1] if at + 1 < len(self.bases) else self.log_end_offset

    def fragments(self) -> list[str]:
        """Paths of inactive segments that are too short for a batch: placeholders of lost segments, reported
        as damaged before a client reads them."""
        return [s.path for s in self.segments[:-1] if 0 < s.size < HEADER_SIZE]

    def epoch_from(self, offset: int) -> int:
        """The leader epoch of the segment at `offset`, an upper bound for all batches before it. It is the
        higher one of its first batch's epoch and that of the leader epoch cache: either may be corrupt."""
        segment = self.segments[self.segment_index(offset)]
        if segment.base_offset != offset or segment.size < HEADER_SIZE:
            return EPOCH_MAX
        header = segment.file().read_at(0, HEADER_SIZE)
        first = read_header(header).leader_epoch if len(header) == HEADER_SIZE else -1
        return max(first, self.epochs.epoch_of(offset))

    # -- by offset -------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        up_to: int | None = None,
        at_least_one: bool = True,
        block: bool = True,
    ) -> ReadResult | None:
        """Read batches from the one that holds `offset` on, below offset `up_to` (None: the log end offset).

        Returns at most `max_bytes` bytes, which may end inside a batch; with `at_least_one` at least the
        whole first batch. None if the read would block and `block` is False.

        Raises :class:`OffsetOutOfRange`, :class:`CorruptLogError`, ``OSError``.
        """
        place = self._place(offset, up_to)
        if place is None:
            return EMPTY
        segment, start, limit, bound = place
        if limit <= start or not (max_bytes > 0 or at_least_one):
            return EMPTY
        read = segment.reader(block)
        data = _read_run(read, segment.path, start, limit, max_bytes, at_least_one)
        if not data:
            return None if data is None else EMPTY
        if start < segment.checked.trusted_from:
            segment.checked.check_read(segment, start, data, bound, self.epoch_from)
        return new_tuple(ReadResult, (data, start, segment.base_offset))

    def is_behind(self, offset: int, end: int) -> bool:
        """Whether a segment ends between `offset` and `end`: one read never has bytes of two segments."""
        at = bisect_right(self.bases, offset)
        return at < len(self.bases) and self.bases[at] <= end

    def read_job(
        self, offset: int, max_bytes: int, *, up_to: int | None = None, at_least_one: bool = True
    ) -> Callable[[], Buffer]:
        """A job that reads the same bytes as `read`, for another thread; it returns no bytes if the segment
        is deleted meanwhile. This method raises :class:`OffsetOutOfRange` and ``OSError``, the job raises
        ``OSError`` and :class:`CorruptLogError`."""
        place = self._place(offset, up_to)
        if place is None:
            return bytes
        segment, start, limit, _ = place
        disk, path, base = self.disk, segment.path, segment.base_offset

        def job() -> Buffer:
            try:
                file = disk.open(path)
            except FileNotFoundError:
                return b""
            try:
                data = _read_run(file.read_at, path, start, limit, max_bytes, at_least_one) or b""
            finally:
                file.close()
            check_run(path, base, start, data)
            return data

        return job

    def _place(self, offset: int, up_to: int | None) -> tuple[Segment, int, int, int] | None:
        """(segment, position of the batch that holds `offset`, end position of the last batch that ends at or
        before offset `up_to`, end offset of the segment). None if there is nothing to read."""
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRange(offset, self.log_start_offset, end)
        if up_to is not None and up_to < end:
            end = up_to
        if offset >= end:
            return None
        bases, segments = self.bases, self.segments
        for at in range((bisect_right(bases, offset) or 1) - 1, len(segments)):
            segment = segments[at]
            start = segment.position_of_batch_with(offset)
            if start is not None:
                bound = bases[at + 1] if at + 1 < len(bases) else self.log_end_offset
                limit = segment.size
                if bound > end:
                    # A checkpointed high watermark may be inside a batch, which then is not committed.
                    beyond = segment.position_of_batch_with(end)
                    limit = limit if beyond is None else beyond
                return segment, start, limit, bound
        return None

    # -- by timestamp ----------------------------------------------------------------------------

    def search_job(self, timestamp: int | None) -> Callable[[], Stamped | None]:
        """A blocking job that finds the first record at or after `timestamp` (ms), or the first one with
        the largest timestamp where None. See :func:`barnabas.log.partition.timestamp_lookup.search_job`."""
        return timestamp_lookup.search_job(self, timestamp)

    # -- by transaction --------------------------------------------------------------------------

    def read_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that touch [start, end). Blocks. Raises
        :class:`CorruptLogError`, ``OSError``."""
        found: list[tuple[int, int]] = []
        for segment in self.segments[self.segment_index(start) :]:
            if aborted_ranges.collect(self, segment, start, end, found):
                break
        return found

    def note_first_timestamp(self) -> None:
        """Read the active segment's first timestamp from disk: rolling by time counts from it."""
        active = self.active
        if active.size >= HEADER_SIZE and active.first_timestamp is None:
            with suppress(CorruptLogError):  # reported when a client reads it
                active.first_timestamp = next(active.headers()).header.max_timestamp


def _read_run(
    read: Callable[[int, int], Buffer | None],
    path: str,
    start: int,
    limit: int,
    max_bytes: int,
    at_least_one: bool,
) -> Buffer | None:
    """Read bytes from position `start` to `limit`: at most `max_bytes`, with `at_least_one` at least the
    whole first batch. None if `read` returned None. Raises :class:`CorruptLogError` if the file is too
    short."""
    most = limit - start
    if at_least_one and max_bytes < LENGTH_PREFIX:
        max_bytes = LENGTH_PREFIX
    size = max_bytes if max_bytes < most else most
    if size <= 0:
        return b""
    data = read(start, size)
    if at_least_one and data and len(data) == size:
        whole = OFFSET_AND_LENGTH.unpack_from(data)[1] + LENGTH_PREFIX
        if whole > most:
            whole = most
        if whole > len(data):
            data, size = read(start, whole), whole
    if data is not None and len(data) < size:
        raise CorruptLogError(path, start + len(data), SHORTER)
    return data
