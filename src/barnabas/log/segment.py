"""One segment: a file of batches with its two sparse indexes.

Knows positions; knows nothing of epochs, producers or watermarks. Offsets given to it are absolute.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.log.errors import CorruptLogError
from barnabas.log.files import (
    DELETED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TXN_INDEX,
    OpenFiles,
    file_name,
)
from barnabas.log.indexes import OffsetIndex, TimeIndex
from barnabas.ports import File
from barnabas.record.batch import (
    HEADER_SIZE,
    LENGTH_PREFIX,
    OFFSET_AND_LENGTH,
    BatchHeader,
    BatchView,
    CorruptBatchError,
    check_crc,
    check_shape,
    read_header,
)
from barnabas.types import Buffer

SCAN_BYTES = 16 * 1024
RECENT_MAX = 512


class Located(NamedTuple):
    """A batch and where it is."""

    header: BatchHeader
    position: int


class Segment:
    """Batches from `base_offset` on. `size` is known from the start, the rest when asked."""

    __slots__ = (
        "_files",
        "_max_timestamp",
        "_prefix",
        "_recent_offsets",
        "_recent_positions",
        "_since_index",
        "base_offset",
        "first_timestamp",
        "index",
        "index_interval",
        "offset_of_max_timestamp",
        "size",
        "time_index",
    )

    def __init__(
        self, files: OpenFiles, directory: str, base_offset: int, size: int, index_interval: int
    ) -> None:
        self._files = files
        self._prefix = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self.size = size
        self.index_interval = index_interval
        self.index = OffsetIndex(files, self._prefix + INDEX)
        self.time_index = TimeIndex(files, self._prefix + TIME_INDEX)
        self._since_index = 0
        self._max_timestamp: int | None = None
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp: int | None = None
        """Largest timestamp of its first batch: what rolling by time counts from."""
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []

    @property
    def path(self) -> str:
        return self._prefix + LOG

    @property
    def transaction_index_path(self) -> str:
        return self._prefix + TXN_INDEX

    def file(self) -> File:
        return self._files.get(self._prefix + LOG)

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp in it; -1 where none."""
        if self._max_timestamp is None:
            timestamp, relative = self.time_index.last()
            self._max_timestamp = timestamp
            self.offset_of_max_timestamp = self.base_offset + relative
        return self._max_timestamp

    # -- writing ---------------------------------------------------------------------------------

    def append(self, parts: Sequence[Buffer], size: int, header: BatchHeader) -> None:
        """Write one batch (in `parts`, together `size` bytes). Raises ``OSError``."""
        position = self.file().append(parts)
        self.note(header, position, size)
        self.size = position + size

    def note(self, header: BatchHeader, position: int, size: int) -> None:
        """Take note of a batch that stands at `position`."""
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self.max_timestamp:
            self._max_timestamp = header.max_timestamp
            self.offset_of_max_timestamp = header.last_offset
        if self._since_index > self.index_interval:
            self.index.append(header.last_offset - self.base_offset, position)
            self.time_index.append(
                self.max_timestamp, self.offset_of_max_timestamp - self.base_offset
            )
            self._since_index = 0
        self._since_index += size
        if len(self._recent_offsets) >= RECENT_MAX:
            del self._recent_offsets[: RECENT_MAX // 2], self._recent_positions[: RECENT_MAX // 2]
        self._recent_offsets.append(header.base_offset)
        self._recent_positions.append(position)

    def would_overflow(self, last_offset: int) -> bool:
        """Whether the offset is too far from the base for the indexes' 32 bits."""
        return last_offset - self.base_offset > 0x7FFFFFFF

    def finish(self) -> None:
        """No more appends: complete the indexes on disk."""
        if self.size and self.max_timestamp >= 0:
            self.time_index.append(
                self.max_timestamp, self.offset_of_max_timestamp - self.base_offset
            )
        self.write_indexes()
        self._recent_offsets.clear()
        self._recent_positions.clear()

    def write_indexes(self) -> None:
        self.index.write()
        self.time_index.write()

    def release(self) -> None:
        """Give back what memory an idle segment does not need."""
        self.index.release()
        self.time_index.release()

    def paths_to_sync(self) -> list[str]:
        return [self.path, self.index.path, self.time_index.path]

    # -- finding ---------------------------------------------------------------------------------

    def locate(self, offset: int) -> Located | None:
        """The first batch whose last offset is at or behind `offset`; None where there is none."""
        for batch in self.headers(self._floor(offset)):
            if batch.header.last_offset >= offset:
                return batch
        return None

    def position_of(self, offset: int) -> int:
        """Position of the first batch that begins at or behind `offset`; the size where none does."""
        at = bisect_right(self._recent_offsets, offset) - 1
        if at >= 0 and self._recent_offsets[at] == offset:
            return self._recent_positions[at]
        for batch in self.headers(self._floor(offset)):
            if batch.header.base_offset >= offset:
                return batch.position
        return self.size

    def position_of_batch_with(self, offset: int) -> int | None:
        """Position of the first batch that ends at or behind `offset`; None where there is none."""
        at = bisect_right(self._recent_offsets, offset) - 1
        if 0 <= at < len(self._recent_offsets) - 1 and (
            self._recent_offsets[at + 1] > offset >= self._recent_offsets[at]
        ):
            # Compaction leaves gaps only in segments that are not appended to any more.
            return self._recent_positions[at]
        batch = self.locate(offset)
        return None if batch is None else batch.position

    def batch_size_at(self, position: int) -> int:
        """Size of the batch that begins at `position`."""
        _, length = OFFSET_AND_LENGTH.unpack(self.file().read_at(position, LENGTH_PREFIX))
        return int(length) + LENGTH_PREFIX

    def view(self, batch: Located) -> BatchView:
        """The whole batch, read."""
        data = memoryview(self.file().read_at(batch.position, batch.header.size))
        return BatchView(batch.header, batch.position, data)

    def _floor(self, offset: int) -> int:
        """Where to begin looking for `offset`."""
        at = bisect_right(self._recent_offsets, offset) - 1
        if at >= 0:
            return self._recent_positions[at]
        return self.index.floor(offset - self.base_offset)

    def headers(self, position: int = 0, *, crc: bool = False) -> Iterator[Located]:
        """The batches from `position` on, read in pieces. With `crc` whole batches are read and
        checked. Raises :class:`CorruptLogError` where the bytes are no batch."""
        file, window, start = self.file(), memoryview(b""), position
        while self.size - position >= HEADER_SIZE:
            if position - start + HEADER_SIZE > len(window):
                start, window = position, memoryview(file.read_at(position, SCAN_BYTES))
                if len(window) < HEADER_SIZE:
                    return
            header = read_header(window, position - start)
            try:
                check_shape(header, position)
                if header.size > self.size - position:
                    raise CorruptBatchError(position, "the file ends inside a batch")
                if crc:
                    start, window = self._whole(file, window, start, position, header.size)
                    check_crc(header, window, position - start)
            except CorruptBatchError as error:
                raise CorruptLogError(self.path, error.position, error.why) from error
            yield Located(header, position)
            position += header.size
        if position < self.size:
            raise CorruptLogError(self.path, position, "the file ends inside a batch")

    @staticmethod
    def _whole(
        file: File, window: memoryview, start: int, position: int, size: int
    ) -> tuple[int, memoryview]:
        """A window that holds the whole batch at `position`."""
        if position - start + size <= len(window):
            return start, window
        window = memoryview(file.read_at(position, max(size, 1 << 20)))
        if len(window) < size:
            raise CorruptBatchError(position, "the file ends inside a batch")
        return position, window

    def last_offset_scan(self) -> int:
        """The offset behind the last batch, by index and a scan of the tail; trusts the file."""
        end = self.base_offset
        self.index.ensure()
        position = self.index.positions[-1] if self.index.positions else 0
        self._since_index = 0
        for batch in self.headers(position):
            end = batch.header.next_offset
            self._since_index += batch.header.size
        return end

    # -- cutting ---------------------------------------------------------------------------------

    def truncate(self, offset: int) -> int:
        """Drop the batch that holds `offset` and all behind it; the position where it ends now."""
        batch = self.locate(offset)
        if batch is None:
            return self.size
        self.cut(batch.position, batch.header.base_offset)
        return batch.position

    def cut(self, position: int, next_offset: int) -> None:
        """End the file at `position`, where the batch from `next_offset` on would stand."""
        self.file().truncate(position)
        self.size = position
        relative = next_offset - self.base_offset
        self.index.ensure()
        self.index.truncate(relative)
        self.time_index.ensure()
        self.time_index.truncate(relative)
        self._max_timestamp = None
        self._forget_recent(position)
        self._rescan_timestamps()

    def _forget_recent(self, position: int) -> None:
        while self._recent_positions and self._recent_positions[-1] >= position:
            self._recent_positions.pop()
            self._recent_offsets.pop()

    def _rescan_timestamps(self) -> None:
        """The largest timestamp behind the last index entry counts too."""
        timestamp, relative = self.time_index.last()
        self._max_timestamp = timestamp
        self.offset_of_max_timestamp = self.base_offset + relative
        position = self.index.positions[-1] if self.index.positions else 0
        for batch in self.headers(position):
            if batch.header.max_timestamp > self._max_timestamp:
                self._max_timestamp = batch.header.max_timestamp
                self.offset_of_max_timestamp = batch.header.last_offset

    def rebuild_indexes(self) -> None:
        """Forget both indexes and make them anew from the batches."""
        self.index.reset()
        self.time_index.reset()
        self._max_timestamp, self._since_index, self.first_timestamp = -1, 0, None
        self._recent_offsets.clear()
        self._recent_positions.clear()
        for batch in self.headers():
            self.note(batch.header, batch.position, batch.header.size)
        self.write_indexes()

    # -- going -----------------------------------------------------------------------------------

    def close(self) -> None:
        for suffix in SEGMENT_SUFFIXES:
            self._files.close(self._prefix + suffix)

    def mark_deleted(self) -> list[str]:
        """Rename its files to ``.deleted``; their new paths, to be removed later."""
        self.close()
        disk, gone = self._files.disk, []
        for suffix in SEGMENT_SUFFIXES:
            path = self._prefix + suffix
            if disk.exists(path):
                disk.rename(path, path + DELETED)
                gone.append(path + DELETED)
        return gone

    def remove(self) -> None:
        """Remove its files now."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            path = self._prefix + suffix
            if self._files.disk.exists(path):
                self._files.disk.remove(path)

    def __repr__(self) -> str:
        return f"Segment({file_name(self.base_offset, LOG)}, {self.size} bytes)"
