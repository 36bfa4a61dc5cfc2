"""The sparse indexes of a segment: offset → position, and timestamp → offset.

An index keeps in memory its last entry and the entries that are not in its file yet. A lookup loads the whole
table into memory; :class:`barnabas.log.file_cache.FileCache` releases it when too many are loaded. Entries
are written later than batches: if the process dies, recovery rebuilds the missing ones by a scan. Offsets are
relative to the segment's base offset. Format: big-endian (int32, int32) and (int64, int32), as Kafka's.

Source: Kafka's ``OffsetIndex``.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import lt
from struct import Struct
from typing import ClassVar, Self

from barnabas.log.file_cache import FileCache

Entry = tuple[int, int]


class SparseIndex:
    """Entries of two numbers, ascending in the first."""

    __slots__ = ("_count", "_files", "_last", "_pending", "_table", "path")
    FORMAT: ClassVar[Struct]
    RESERVED: ClassVar[int] = 0
    """Entries that are appended when the segment is full already."""

    def __init__(self, files: FileCache, path: str) -> None:
        self._files = files
        self.path = path
        self._count = -1
        """Number of entries, with those not in the file yet; -1 until they are counted."""
        self._last: Entry | None = None
        self._pending: bytes | bytearray = b""
        self._table: bytearray | None = None

    def make(self) -> None:
        """Create an empty index file. Apache Kafka takes a segment without index files for damaged."""
        if self._files.disk.exists(self.path):
            self._files.get(self.path).truncate(0)
        else:
            # Through the file cache, which frees file descriptors if the process has none left.
            self._files.get(self.path)
            self._files.close(self.path)
        self._count, self._last, self._pending, self._table = 0, None, b"", None

    def copy_for(self, files: FileCache) -> Self:
        """A copy for a reader on another thread, which opens the file by `files`. It does not change when
        this index grows."""
        copy = type(self)(files, self.path)
        copy._count, copy._last, copy._pending = self._count, self._last, self._pending
        return copy

    @property
    def count(self) -> int:
        if self._count < 0:
            self._open()
        return self._count

    @property
    def last(self) -> Entry | None:
        if self._count < 0:
            self._open()
        return self._last

    def size(self) -> int:
        """Bytes of all entries."""
        if self._count < 0:
            self._open()
        return self._count * self.FORMAT.size

    def room(self, bytes_max: int) -> int:
        """How many entries may be appended before ``segment.index.bytes`` (`bytes_max`) has room for the
        reserved ones alone; ≤ 0: none. Apache Kafka does not start if the index of an active segment is
        larger."""
        return bytes_max // self.FORMAT.size - self.RESERVED - self.count

    def _open(self) -> None:
        """Read the number of entries and the last one. A file that Kafka preallocated ends in zeros."""
        disk, width = self._files.disk, self.FORMAT.size
        size = disk.size(self.path) if disk.exists(self.path) else 0
        self._count = size // width
        self._last = None
        if not self._count:
            return
        tail = self._files.get(self.path).read_at((self._count - 1) * width, width)
        self._last = self._unpack(tail, 0)
        if self._last == (0, 0):
            self._trim_padding()

    def _trim_padding(self) -> None:
        data = self._files.disk.read_file(self.path)
        count = self._count
        while count and self._unpack(data, (count - 1) * self.FORMAT.size) == (0, 0):
            count -= 1
        self._cut(count)
        self._last = self._unpack(data, (count - 1) * self.FORMAT.size) if count else None

    def _cut(self, count: int) -> None:
        self._files.get(self.path).truncate(count * self.FORMAT.size)
        self._count = count

    def _unpack(self, data: bytes | bytearray, position: int) -> Entry:
        first, second = self.FORMAT.unpack_from(data, position)
        return first, second

    def say_rebuilt(self, reason: str) -> None:
        """The indexes of its segment are damaged, and are rebuilt now."""
        self._files.on_rebuilt(self.path, reason)

    def is_sound(self) -> bool:
        """Whether the file exists and has only complete entries, whose numbers ascend and are none below 0.
        Reads the whole file."""
        disk, width = self._files.disk, self.FORMAT.size
        if not disk.exists(self.path) or disk.size(self.path) % width:
            return False
        for numbers in zip(*self.FORMAT.iter_unpack(self.table()), strict=True):
            if numbers[0] < 0 or not all(map(lt, numbers, numbers[1:])):
                return False
        return True

    def table(self) -> bytearray:
        """All entries as bytes."""
        if self._table is None:
            stored = self.count * self.FORMAT.size - len(self._pending)
            data = self._files.disk.read_file(self.path)[:stored] if stored else b""
            self._table = bytearray(data + self._pending)
            self._files.keep_loaded(self)
        return self._table

    def entries(self) -> list[Entry]:
        return [(first, second) for first, second in self.FORMAT.iter_unpack(self.table())]

    def append(self, first: int, second: int) -> None:
        """Add an entry; ignored if it is not above the last one."""
        if self._count < 0:
            self._open()
        last = self._last
        if last is not None and first <= last[0]:
            return
        entry = self.FORMAT.pack(first, second)
        if not self._pending:
            self._pending = bytearray()
        self._pending += entry
        if self._table is not None:
            self._table += entry
        self._last = first, second
        self._count += 1

    def floor(self, first: int) -> Entry | None:
        """The last entry whose first number is at most `first`."""
        last = self.last
        if last is None or last[0] <= first:
            return last
        table, width = self.table(), self.FORMAT.size
        unpack = self.FORMAT.unpack_from
        at = bisect_right(range(self._count), first, key=lambda i: unpack(table, i * width)[0])
        return self._unpack(table, (at - 1) * width) if at else None

    def keep(self, count: int) -> None:
        """Drop all but the first `count` entries."""
        if count >= self.count:
            return
        width = self.FORMAT.size
        table = self.table()[: count * width]
        stored = self._count - len(self._pending) // width
        if count < stored:
            self._cut(count)
            stored = count
        self._count = count
        self._pending = table[stored * width :] or b""
        self._table = table
        self._last = self._unpack(table, (count - 1) * width) if count else None

    def write(self) -> bool:
        """Write the missing entries to the file. Returns whether the file was empty before."""
        if not self._pending:
            return False
        stored = self._count * self.FORMAT.size - len(self._pending)
        self._files.get(self.path).write_at(stored, self._pending)
        self._pending = b""
        return stored == 0

    def release(self) -> None:
        """Drop the table from memory."""
        self._table = None


class OffsetIndex(SparseIndex):
    """Relative offset of a batch's last record → position of the batch."""

    __slots__ = ()
    FORMAT = Struct(">ii")

    def position_below(self, relative: int) -> int:
        """Position of the last indexed batch that ends at or before `relative`; 0 if there is none, or if the
        entry is corrupt (negative)."""
        entry = self.floor(relative)
        return 0 if entry is None else max(entry[1], 0)

    @property
    def last_position(self) -> int:
        """Position of the last indexed batch; 0 if there is none, or if the entry is corrupt (negative)."""
        return 0 if self.last is None else max(self.last[1], 0)

    def place_below(self, relative: int) -> tuple[int, int]:
        """`position_below`, and a lower bound of the relative base offset of the batch at that position."""
        entry = self.floor(relative)
        if entry is None:
            return 0, 0
        before = self.floor(entry[0] - 1)
        return max(entry[1], 0), 0 if before is None else before[0] + 1

    def truncate(self, relative: int) -> None:
        """Drop entries at or above `relative`."""
        while (last := self.last) is not None and last[0] >= relative:
            below = bisect_right(
                range(self.count),
                relative - 1,
                key=lambda i: self._unpack(self.table(), i * self.FORMAT.size)[0],
            )
            self.keep(below)


class TimeIndex(SparseIndex):
    """Largest timestamp so far → relative offset of the record that has it."""

    __slots__ = ()
    FORMAT = Struct(">qi")
    RESERVED = 1

    def truncate(self, relative: int) -> None:
        """Drop entries of records at or above `relative`."""
        count = self.count
        table = self.table()
        while count and self._unpack(table, (count - 1) * self.FORMAT.size)[1] >= relative:
            count -= 1
        self.keep(count)
