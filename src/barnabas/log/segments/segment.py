"""One segment: a file of batches with its two sparse indexes.

Knows positions; knows nothing of epochs, producers or watermarks. Offsets given to it are absolute.
Indexes are hints, not the truth: one that is missing or wrong is rebuilt from the batches. Batches that an
earlier life of the process wrote are checked by CRC when they are first read.

Source: Kafka's ``LogSegment``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from crc32c import crc32c

from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import (
    DELETED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
)
from barnabas.log.segments.checked_range import SHORTER, CheckedRange
from barnabas.log.segments.indexes import OffsetIndex, TimeIndex
from barnabas.ports import Disk, File
from barnabas.record.batch import (
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX,
    MAGIC,
    BatchHeader,
    BatchView,
    CorruptBatchError,
    check_shape,
    read_header,
)
from barnabas.types import Buffer, new_tuple

SCAN_BYTES = 16 * 1024
CHECK_BYTES = 1 << 20
RELATIVE_MAX = 0x7FFFFFFF
"""The indexes have 32 bits for an offset from the base."""
PROBES_MAX = 8
"""Headers that are read one by one for a look-up before they are read in pieces."""
RECENT_MAX = 128
"""Batches at the end whose positions are kept in memory: what followers and consumers ask for."""


class Located(NamedTuple):
    """A batch and where it is."""

    header: BatchHeader
    position: int


class Indexing(NamedTuple):
    """The place where a run of batches is appended, and the state from which the segment's indexes
    continue."""

    position: int
    interval: int
    since_index: int
    """Bytes behind the last entry."""
    max_timestamp: int
    offset_of_max_timestamp: int


class Indexed(NamedTuple):
    """The index entries of a run of batches, and the state from which the indexes continue behind it."""

    entries: list[list[int]]
    """Last offset and position of a batch, largest timestamp up to there, its offset."""
    since_index: int
    max_timestamp: int
    offset_of_max_timestamp: int


class Segment:
    """Batches from `base_offset` on. `size` is known from the start, the rest when asked."""

    __slots__ = (
        "_files",
        "_is_preallocated",
        "_large_batches",
        "_max_timestamp",
        "_rebuilt",
        "_recent_ends",
        "_recent_positions",
        "_since_index",
        "aborted_seal",
        "suffix",
        "base_offset",
        "checked",
        "first_timestamp",
        "has_no_aborted",
        "index",
        "index_interval",
        "offset_of_max_timestamp",
        "path",
        "size",
        "size_with_room",
        "time_index",
    )

    def __init__(
        self,
        files: FileCache,
        directory: str,
        base_offset: int,
        size: int,
        index_interval: int,
        suffix: str = "",
    ) -> None:
        """`suffix` ends the file names of a segment that is not part of a log yet."""
        self._files = files
        prefix = f"{directory}/{base_offset:020d}"
        self.suffix = suffix
        self.path = prefix + LOG + suffix
        self.base_offset = base_offset
        self.size = size
        self.index_interval = index_interval
        self.size_with_room = 0
        """Up to this size the log need not ask for the room of the indexes."""
        self.index = OffsetIndex(files, prefix + INDEX + suffix)
        self.time_index = TimeIndex(files, prefix + TIME_INDEX + suffix)
        self._since_index = 0
        self._rebuilt = self._large_batches = self._is_preallocated = False
        self._max_timestamp: int | None = None
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp: int | None = None
        """Largest timestamp of its first batch: what rolling by time counts from."""
        self.aborted_seal: tuple[int, int] | None = None
        """Length and CRC of its index of aborted transactions where this process wrote or proved it."""
        self.has_no_aborted = False
        """Whether it is known to have no index of aborted transactions."""
        self._recent_ends = array("q")
        """Offset behind each of the last batches."""
        self._recent_positions = array("q")
        self.checked = CheckedRange(size)

    @property
    def transaction_index_path(self) -> str:
        return _path_beside(self, TXN_INDEX)

    def file(self) -> File:
        return self._files.get(self.path)

    @property
    def known_max_timestamp(self) -> int | None:
        """`max_timestamp` where that is known without a look at the disk."""
        return self._max_timestamp

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp in it; -1 where none."""
        if self._max_timestamp is None:
            timestamp, relative = self.time_index.last or (-1, 0)
            self._max_timestamp = timestamp
            self.offset_of_max_timestamp = self.base_offset + relative
        return self._max_timestamp

    # -- writing ---------------------------------------------------------------------------------

    def make(self, preallocate: int = 0) -> None:
        """Begin with empty files; the batches' one takes `preallocate` bytes at once (``preallocate``),
        zeros until they are written, which `finish` gives back."""
        self._files.get(self.path, make=True).truncate(0)
        if preallocate:
            self.file().truncate(preallocate)
        self._is_preallocated = preallocate > 0
        self.index.make()
        self.time_index.make()
        self._max_timestamp = -1
        self.aborted_seal = (0, 0)

    def append(self, parts: Sequence[Buffer], size: int, header: BatchHeader) -> None:
        """Write one batch (in `parts`, together `size` bytes). Raises ``OSError``; the file may then
        have more bytes than `size` says."""
        position = self._write(parts)
        self.update_for_batch(header, position, size)
        self.size = position + size

    def append_run(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches that are one behind the other in `data`, as `append` does with one."""
        position = self._write([data])
        for header in headers:
            size = header.length + LENGTH_PREFIX
            self.update_for_batch(header, position, size)
            position += size
        self.size = position

    def _write(self, parts: Sequence[Buffer]) -> int:
        if not self._is_preallocated:
            return self._files.get(self.path).append(parts)
        position, file = self.size, self.file()
        for part in parts:
            file.write_at(position, part)
            position += len(part)
        return self.size

    def update_for_batch(self, header: BatchHeader, position: int, size: int) -> None:
        """Take note of a batch at `position`."""
        timestamp = header.max_timestamp
        last_offset = header.base_offset + header.last_offset_delta
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        largest = self._max_timestamp
        if largest is None:
            largest = self.max_timestamp
        if timestamp > largest and header.length + LENGTH_PREFIX > HEADER_SIZE:
            # What compaction left of a batch without records has no record with this timestamp.
            self._max_timestamp = timestamp
            self.offset_of_max_timestamp = last_offset
        if self._since_index > self.index_interval:
            if self.would_overflow(last_offset):
                raise CorruptLogError(self.path, position, "the offset is too far from the base")
            self.index.append(last_offset - self.base_offset, position)
            self.time_index.append(
                self.max_timestamp, self.offset_of_max_timestamp - self.base_offset
            )
            self._since_index = 0
        self._since_index += size
        ends = self._recent_ends
        if len(ends) >= RECENT_MAX:
            del ends[: RECENT_MAX // 2], self._recent_positions[: RECENT_MAX // 2]
        ends.append(last_offset + 1)
        self._recent_positions.append(position)

    def indexing(self) -> Indexing:
        """The state for a caller that makes the index entries of many batches at once, see
        `append_indexed`."""
        return Indexing(
            self.size, self.index_interval, self._since_index, self.max_timestamp,
            self.offset_of_max_timestamp,
        )  # fmt: skip

    def append_indexed(self, data: Buffer, indexed: Indexed) -> None:
        """Append as `append_run` does, where what `update_for_batch` would do for each batch is done
        already."""
        position = self._write([data])
        self.note_indexed(indexed)
        self.size = position + len(data)

    def note_indexed(self, indexed: Indexed) -> None:
        """Note many batches that are in the file, as `update_for_batch` does with each."""
        base = self.base_offset
        for last_offset, at, latest, offset in indexed.entries:
            if self.would_overflow(last_offset):
                raise CorruptLogError(self.path, at, "the offset is too far from the base")
            self.index.append(last_offset - base, at)
            self.time_index.append(latest, offset - base)
        self._since_index = indexed.since_index
        self._max_timestamp = indexed.max_timestamp
        self.offset_of_max_timestamp = indexed.offset_of_max_timestamp
        self._forget_recent(0)  # they would not be the last ones

    def would_overflow(self, last_offset: int) -> bool:
        """Whether the offset is too far from the base for the indexes' 32 bits."""
        return last_offset - self.base_offset > RELATIVE_MAX

    def finish(self) -> bool:
        """No more appends: complete the indexes on disk, and end the file behind the last batch. Whether
        that made a file or shortened one."""
        shortened, self._is_preallocated = self._is_preallocated, False
        if shortened:
            self.file().truncate(self.size)
        made = self.write_indexes(complete=True) or shortened
        self._forget_recent(0)
        self.index.release()
        self.time_index.release()
        return made

    def write_indexes(self, *, complete: bool = False) -> bool:
        """Bring the files up to date; `complete` adds the largest timestamp of all batches. Whether
        that made a file."""
        if complete and self.size and self.max_timestamp >= 0:
            self.time_index.append(
                self.max_timestamp, self.offset_of_max_timestamp - self.base_offset
            )
        made = self.index.write()
        return self.time_index.write() or made

    # -- finding ---------------------------------------------------------------------------------

    def locate(self, offset: int) -> Located | None:
        """The first batch whose last offset is at or behind `offset`; None where there is none. Raises
        :class:`CorruptLogError`, also where offsets do not ascend: no CRC covers them."""
        end = self.base_offset
        for batch in self._from_floor(offset):
            if batch.header.base_offset < end:
                raise CorruptLogError(self.path, batch.position, "the offsets do not ascend")
            end = batch.header.next_offset
            if end > offset:
                return batch
        return None

    def end_before(self, offset: int, keep: int = -1) -> tuple[int, int]:
        """(offset, position) behind the last batch that ends at or before `offset`; the segment's
        beginning where none does. A corrupt batch is behind it, too. Raises :class:`CorruptLogError`
        if that would put batches below offset `keep` behind it."""
        end, position, fault = _end_before(self, self._from_floor(offset - 1), offset)
        if fault is not None and not position:  # it may be well behind the beginning
            end, position, fault = _end_before(self, self.headers(), offset)
        if fault is not None and end < min(keep, offset):
            raise fault
        return end, position

    def position_of_batch_with(self, offset: int) -> int | None:
        """Position of the first batch that ends at or behind `offset`; None where there is none."""
        ends = self._recent_ends
        at = bisect_right(ends, offset)
        if at:
            return self._recent_positions[at] if at < len(ends) else None
        if ends and offset >= self.base_offset and not self._recent_positions[0]:
            return 0
        found = _probe(self, offset)
        if found is not None:
            return found
        batch = self.locate(offset)
        return None if batch is None else batch.position

    def _from_floor(self, offset: int) -> Iterator[Located]:
        """The batches from somewhere at or before `offset` on. An index that points into nothing is
        rebuilt."""
        ends = self._recent_ends
        at = bisect_right(ends, offset)
        if at:
            yield from self.headers(self._recent_positions[at - 1])
            return
        if self.index.last is None and self.size > 2 * self.index_interval and not self._rebuilt:
            self.rebuild_indexes()  # the file is missing, or there are only large batches
        position, least = self.index.place_below(offset - self.base_offset)
        batches, first = self.headers(position), None
        try:
            first = next(batches, None)
            sound = is_between(first, self.base_offset + least, offset)
        except CorruptLogError:
            if not position:
                raise
            sound = False
        if sound or not position:
            if first is not None:
                yield first
                yield from batches
            return
        self.index.say_rebuilt("an entry names no batch")
        self.rebuild_indexes()
        yield from self.headers(self.index.position_below(offset - self.base_offset))

    def reader(self, block: bool) -> Callable[[int, int], Buffer | None]:
        """Gives bytes of the file, by position and size; None where reading would block and `block` is
        False."""
        file = self._files.get(self.path)
        return file.read_at if block else file.try_read_at

    def view(self, batch: Located) -> BatchView:
        """The whole batch, read."""
        data = memoryview(self.file().read_at(batch.position, batch.header.size))
        return BatchView(batch.header, batch.position, data)

    def headers(self, position: int = 0, *, crc: bool = False) -> Iterator[Located]:
        """The batches from `position` on, read in pieces. With `crc` whole batches are read and
        checked. Raises :class:`CorruptLogError` where the bytes are no batch."""
        file, window, start = self.file(), memoryview(b""), position
        unpack = HEADER.unpack_from
        while self.size - position >= HEADER_SIZE:
            at = position - start
            if at + HEADER_SIZE > len(window):
                # Where batches are large only their headers are worth reading.
                ahead = HEADER_SIZE if self._large_batches else SCAN_BYTES
                start, window, at = position, memoryview(file.read_at(position, ahead)), 0
                if len(window) < HEADER_SIZE:
                    raise CorruptLogError(self.path, position, SHORTER)
            header = new_tuple(BatchHeader, unpack(window, at))
            size = header[1] + LENGTH_PREFIX
            try:
                if header[3] != MAGIC or size < HEADER_SIZE or header[6] < 0 or header[12] < 0:
                    check_shape(header, position)  # says what is wrong
                if size > self.size - position:
                    raise CorruptBatchError(position, "the file ends inside a batch")
                if crc:
                    if at + size > len(window):
                        start, window = _whole(file, window, start, position, size)
                        at = position - start
                    if crc32c(window[at + CRC_FROM : at + size]) != header[4]:
                        raise CorruptBatchError(position, "the CRC does not match")
            except CorruptBatchError as error:
                raise CorruptLogError(self.path, position, error.why) from error
            yield new_tuple(Located, (header, position))
            position += size
            self._large_batches = size > SCAN_BYTES
        if position < self.size:
            raise CorruptLogError(self.path, position, "the file ends inside a batch")

    def find_end(self) -> int:
        """The offset behind the last batch, by index and a scan of the tail; trusts the file. Raises
        :class:`CorruptLogError`."""
        end, last = self.base_offset, self.index.last
        self._since_index, stamp = 0, self.max_timestamp
        for header, _ in self.headers(self.index.last_position):
            end = header.base_offset + header.last_offset_delta + 1
            size = header.length + LENGTH_PREFIX
            self._since_index += size
            if header.max_timestamp > stamp and size > HEADER_SIZE:
                stamp = self._max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = end - 1
        if last is not None and end <= self.base_offset + max(last[0], 0):
            raise CorruptLogError(self.path, last[1], "the index does not fit the batches")
        return end

    # -- cutting ---------------------------------------------------------------------------------

    def cut(self, position: int, next_offset: int) -> None:
        """End the file at `position`, where the batch from `next_offset` on would be."""
        self.file().truncate(position)
        self._is_preallocated = False
        self.size, self.size_with_room = position, 0
        relative = next_offset - self.base_offset
        self.index.truncate(relative)
        self.time_index.truncate(relative)
        self._forget_recent(position)
        self._max_timestamp = None
        self.checked.cut(position)
        if self.size == 0:
            self.first_timestamp, self._max_timestamp = None, -1
        with suppress(CorruptLogError):  # a batch before it rotted: reported when it is read
            self.find_end()

    def _forget_recent(self, position: int) -> None:
        at = bisect_left(self._recent_positions, position)
        del self._recent_positions[at:], self._recent_ends[at:]

    def rebuild_indexes(self) -> None:
        """Rebuild all entries from the batches. Raises :class:`CorruptLogError`; the entries before the
        corrupt batch stay."""
        end = self.base_offset
        try:
            for header, position in self.headers(self.begin_indexes()):
                if header.base_offset < end or self.would_overflow(header.last_offset):
                    raise CorruptLogError(self.path, position, "the offsets do not ascend")
                end = header.next_offset
                self.update_for_batch(header, position, header.size)
        except CorruptLogError:
            self._forget_recent(0)  # they would not be the last ones
            raise
        self.write_indexes(complete=True)

    def begin_indexes(self, position: int = 0, next_offset: int = -1) -> int:
        """Drop the entries of the batches from `position` (with offsets from `next_offset` on); the
        position from which on batches have to be noted to rebuild them."""
        if position == 0 or next_offset < 0:
            position = 0
            self.index.make()
            self.time_index.make()
            self._max_timestamp, self.first_timestamp = -1, None
        else:
            self.index.truncate(next_offset - self.base_offset)
            self.time_index.truncate(next_offset - self.base_offset)
            self._max_timestamp = None
            position = min(position, self.index.last_position)
        self._since_index, self._rebuilt = 0, True
        self.size_with_room = 0
        self._forget_recent(0)
        return position

    # -- going -----------------------------------------------------------------------------------

    def close(self) -> None:
        for suffix in SEGMENT_SUFFIXES:
            self._files.close(_path_beside(self, suffix))

    def __repr__(self) -> str:
        return f"Segment({file_name(self.base_offset, LOG)}, {self.size} bytes)"


def _path_beside(segment: Segment, suffix: str) -> str:
    """The path of the file that has `suffix` where that of the batches has ``.log``."""
    return segment.path.removesuffix(LOG + segment.suffix) + suffix + segment.suffix


def is_between(batch: Located | None, least: int, most: int) -> bool:
    """Whether an index entry can be right that names `batch` (None: there is none where it points to)."""
    return batch is not None and least <= batch.header.base_offset <= most


def _probe(segment: Segment, offset: int) -> int | None:
    """Position of the batch that holds `offset`, by a look at the first headers behind its index entry;
    None where that does not show it, for whatever reason."""
    index = segment.index
    if index.last is None:
        return None
    file, position = segment.file(), index.position_below(offset - segment.base_offset)
    for _ in range(PROBES_MAX):
        if segment.size - position < HEADER_SIZE:
            return None
        data = file.read_at(position, HEADER_SIZE)
        if len(data) < HEADER_SIZE:
            return None
        header = read_header(data)
        if header.magic != MAGIC or header.base_offset > offset or header.last_offset_delta < 0:
            return None
        if not HEADER_SIZE <= header.size <= segment.size - position:
            return None
        if header.last_offset >= offset:
            return position
        position += header.size
    return None


def _end_before(
    segment: Segment, batches: Iterator[Located], offset: int
) -> tuple[int, int, CorruptLogError | None]:
    """Offset and position behind the last of `batches` that ends at or before `offset`, and what ended
    the search before one that does not."""
    end, position = segment.base_offset, 0
    try:
        for batch in batches:
            if batch.header.next_offset > offset:
                break
            end, position = batch.header.next_offset, batch.position + batch.header.size
    except CorruptLogError as error:
        return end, position, error
    return end, position, None


def has_timestamp(segment: Segment, largest: int) -> bool:
    """Whether `largest`, its `max_timestamp`, is that of the batch that the time index names for it. Raises
    :class:`CorruptLogError`."""
    batch = segment.locate(segment.offset_of_max_timestamp)
    return batch is not None and batch.header.max_timestamp == largest


def relocate(segment: Segment, directory: str) -> None:
    """Its files, which were closed before, are in `directory` now."""
    segment.path = f"{directory}/{file_name(segment.base_offset, LOG)}{segment.suffix}"
    for index, suffix in ((segment.index, INDEX), (segment.time_index, TIME_INDEX)):
        index.release()
        index.path = _path_beside(segment, suffix)


def files_of(disk: Disk, segment: Segment) -> list[str]:
    """Paths of its files, the batches' first: indexes alone are nothing."""
    prefix = segment.path.removesuffix(LOG)
    return [prefix + suffix for suffix in SEGMENT_SUFFIXES if disk.exists(prefix + suffix)]


def mark_deleted(disk: Disk, segment: Segment) -> list[str]:
    """Rename its files to ``.deleted``; their new paths, to be removed later."""
    segment.close()
    paths = files_of(disk, segment)
    for path in paths:
        disk.rename(path, path + DELETED)
    return [path + DELETED for path in paths]


def remove(disk: Disk, segment: Segment) -> None:
    """Remove its files now."""
    segment.close()
    for path in files_of(disk, segment):
        disk.remove(path)


def _whole(
    file: File, window: memoryview, start: int, position: int, size: int
) -> tuple[int, memoryview]:
    """A window that holds the whole batch at `position`."""
    if position - start + size <= len(window):
        return start, window
    window = memoryview(file.read_at(position, max(size, CHECK_BYTES)))
    if len(window) < size:
        raise CorruptBatchError(position, "the file ends inside a batch")
    return position, window
