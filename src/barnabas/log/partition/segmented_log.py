"""The segments of one log and reading from them, by offset, by timestamp, by transaction.

`segments` ascend by base offset and are never empty once the log is open; the last one is active. Reads
return one run of bytes of one segment, as it is on disk. Faults of the disk are ``OSError``;
batches that are not what was written raise :class:`CorruptLogError` and are never served.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from barnabas.log.checkpoints import LEADER_EPOCH
from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError, OffsetOutOfRange
from barnabas.log.file_cache import FileCache
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
    """A run of bytes that may end inside a batch; `first_position` is where it begins in the segment."""

    records: Buffer
    first_position: int
    segment_base: int


EMPTY = ReadResult(b"", 0, 0)


class SegmentedLog:
    """What a log has on disk. Writing is :class:`barnabas.log.partition.partition_log.PartitionLog`'s."""

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
        """The log directory that it is in. Jobs that read it wait for no other disk, which may hang."""
        return self.directory.rpartition("/")[0]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def index_segments(self) -> None:
        """After `segments` changed."""
        self.bases = [segment.base_offset for segment in self.segments]

    def segment_index(self, offset: int) -> int:
        """Which of `segments` would hold `offset`; the first one where it lies before all."""
        return (bisect_right(self.bases, offset) or 1) - 1

    def end_of_segment(self, at: int) -> int:
        """The offset behind the `at`-th segment: where the next begins, or the log's end."""
        return self.bases[at + 1] if at + 1 < len(self.bases) else self.log_end_offset

    def fragments(self) -> list[str]:
        """Files too short for any batch that other segments follow: placeholders of lost segments, known to
        be damaged before any client reads them."""
        return [s.path for s in self.segments[:-1] if 0 < s.size < HEADER_SIZE]

    def epoch_from(self, offset: int) -> int:
        """The leader epoch with which the segment at `offset` begins: none before it is above that. Either
        witness may have rotted, its first batch or what is known of epochs: the higher one counts."""
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
        """Bytes from the batch that holds `offset` on, ending below offset `up_to` (the log's end where
        None), at most `max_bytes` of them, or one whole batch where `at_least_one`. They may end
        inside a batch. None where reading would block and `block` is False.

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
        """Whether a reader at `offset` comes to the end of a segment before it comes to `end`: one answer
        never has bytes of two."""
        at = bisect_right(self.bases, offset)
        return at < len(self.bases) and self.bases[at] <= end

    def read_job(
        self, offset: int, max_bytes: int, *, up_to: int | None = None, at_least_one: bool = True
    ) -> Callable[[], Buffer]:
        """The same bytes as `read` gives, by a job that may run (and block) on another thread; none
        where the segment is gone by then. Raises :class:`OffsetOutOfRange`, ``OSError`` now, and
        ``OSError``, :class:`CorruptLogError` in the job."""
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
        """Segment, position of the batch that holds `offset`, the position behind the last batch that ends at
        or before offset `up_to`, and the offset where the segment ends."""
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
                    # A high watermark of an earlier life may lie inside a batch, which is not committed then.
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
        """Learn from disk what rolling by time counts from."""
        active = self.active
        if active.size >= HEADER_SIZE and active.first_timestamp is None:
            with suppress(CorruptLogError):  # a batch rotted: reported when it is read
                active.first_timestamp = next(active.headers()).header.max_timestamp


def _read_run(
    read: Callable[[int, int], Buffer | None],
    path: str,
    start: int,
    limit: int,
    max_bytes: int,
    at_least_one: bool,
) -> Buffer | None:
    """Bytes from `start` on, below `limit`: at most `max_bytes`, or the first batch whole. Raises
    :class:`CorruptLogError` where the file ends before."""
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
