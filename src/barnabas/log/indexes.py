"""The sparse indexes of a segment: offset → position, and timestamp → offset.

Entries are kept in memory as arrays once somebody asks, and written behind: what is not on disk yet is
lost with the process, which costs a scan at recovery, never an answer. Offsets are relative to the
segment's base. Format: big-endian (int32, int32) and (int64, int32), as Kafka's.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from struct import Struct

from barnabas.log.files import OpenFiles
from barnabas.types import Buffer

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_SWAP = sys.byteorder == "little"


class OffsetIndex:
    """Relative offset of a batch's last record → position of the batch."""

    __slots__ = ("_files", "_loaded", "_written", "offsets", "path", "positions")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self.path = path
        self.offsets = array("i")
        self.positions = array("i")
        self._loaded = False
        self._written = 0

    def load(self) -> bool:
        """Read the file. False where it is no index (wrong size, not ascending)."""
        self._loaded = True
        data = self._files.disk.read_file(self.path) if self._files.disk.exists(self.path) else b""
        usable = len(data) - len(data) % 8
        raw = array("i", data[:usable])
        if _SWAP:
            raw.byteswap()
        self.offsets, self.positions = raw[0::2], raw[1::2]
        self._trim_padding()
        self._written = len(self.offsets)
        return usable == len(data) and self._ascends()

    def _trim_padding(self) -> None:
        """A preallocated file (Kafka's, after a crash) ends in zeros."""
        count = len(self.offsets)
        while count > 1 and self.offsets[count - 1] == 0 and self.positions[count - 1] == 0:
            count -= 1
        if count == 1 and self.positions[0] == 0 and self.offsets[0] == 0:
            count = 0
        del self.offsets[count:], self.positions[count:]

    def _ascends(self) -> bool:
        offsets, positions = self.offsets, self.positions
        return all(
            offsets[i] < offsets[i + 1] and positions[i] < positions[i + 1]
            for i in range(len(offsets) - 1)
        )

    def ensure(self) -> None:
        if not self._loaded:
            self.load()

    def append(self, relative: int, position: int) -> None:
        self.ensure()
        if not self.offsets or relative > self.offsets[-1]:
            self.offsets.append(relative)
            self.positions.append(position)

    def floor(self, relative: int) -> int:
        """Position of the last indexed batch that begins at or before what is looked for; 0 where none."""
        self.ensure()
        at = bisect_right(self.offsets, relative)
        return self.positions[at - 1] if at else 0

    def size(self) -> int:
        return len(self.offsets) * 8

    def truncate(self, relative: int) -> None:
        """Drop entries at or above `relative`."""
        self.ensure()
        count = len(self.offsets)
        while count and self.offsets[count - 1] >= relative:
            count -= 1
        del self.offsets[count:], self.positions[count:]
        if count < self._written:
            self._files.get(self.path).truncate(count * 8)
            self._written = count

    def reset(self) -> None:
        """Empty, in memory and on disk."""
        self._loaded = True
        self.offsets, self.positions, self._written = array("i"), array("i"), 0
        self._files.get(self.path).truncate(0)

    def write(self) -> None:
        """Bring the file up to date."""
        if self._loaded and self._written < len(self.offsets):
            new = array("i")
            for at in range(self._written, len(self.offsets)):
                new.append(self.offsets[at])
                new.append(self.positions[at])
            if _SWAP:
                new.byteswap()
            self._files.get(self.path).append([new.tobytes()])
            self._written = len(self.offsets)

    def release(self) -> None:
        """Give back memory; the file has everything."""
        self.write()
        self.offsets, self.positions, self._loaded = array("i"), array("i"), False


class TimeIndex:
    """Largest timestamp so far → relative offset of the record that has it."""

    __slots__ = ("_files", "_loaded", "_written", "offsets", "path", "timestamps")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self.path = path
        self.timestamps = array("q")
        self.offsets = array("i")
        self._loaded = False
        self._written = 0

    def load(self) -> bool:
        """Read the file. False where it is no time index."""
        self._loaded = True
        data: Buffer = b""
        if self._files.disk.exists(self.path):
            data = self._files.disk.read_file(self.path)
        usable = len(data) - len(data) % 12
        self.timestamps, self.offsets = array("q"), array("i")
        for timestamp, relative in _TIME_ENTRY.iter_unpack(data[:usable]):
            if self.timestamps and (timestamp <= 0 and relative == 0):
                break  # the zeros behind a preallocated file
            self.timestamps.append(timestamp)
            self.offsets.append(relative)
        if len(self.timestamps) == 1 and self.timestamps[0] == 0 and self.offsets[0] == 0:
            del self.timestamps[:], self.offsets[:]
        self._written = len(self.timestamps)
        stamps = self.timestamps
        return usable == len(data) and all(
            stamps[i] <= stamps[i + 1] for i in range(len(stamps) - 1)
        )

    def ensure(self) -> None:
        if not self._loaded:
            self.load()

    def append(self, timestamp: int, relative: int) -> None:
        self.ensure()
        if not self.timestamps or timestamp > self.timestamps[-1]:
            self.timestamps.append(timestamp)
            self.offsets.append(relative)

    def last(self) -> tuple[int, int]:
        """(largest timestamp, relative offset); (-1, 0) where empty."""
        self.ensure()
        if not self.timestamps:
            return -1, 0
        return self.timestamps[-1], self.offsets[-1]

    def floor(self, timestamp: int) -> int:
        """Relative offset from which to look for the first record at or after `timestamp`."""
        self.ensure()
        at = bisect_right(self.timestamps, timestamp - 1)
        return self.offsets[at - 1] if at else 0

    def size(self) -> int:
        return len(self.timestamps) * 12

    def truncate(self, relative: int) -> None:
        self.ensure()
        count = len(self.offsets)
        while count and self.offsets[count - 1] >= relative:
            count -= 1
        del self.timestamps[count:], self.offsets[count:]
        if count < self._written:
            self._files.get(self.path).truncate(count * 12)
            self._written = count

    def reset(self) -> None:
        self._loaded = True
        self.timestamps, self.offsets, self._written = array("q"), array("i"), 0
        self._files.get(self.path).truncate(0)

    def write(self) -> None:
        if self._loaded and self._written < len(self.timestamps):
            pack = _TIME_ENTRY.pack
            new = b"".join(
                pack(self.timestamps[at], self.offsets[at])
                for at in range(self._written, len(self.timestamps))
            )
            self._files.get(self.path).append([new])
            self._written = len(self.timestamps)

    def release(self) -> None:
        self.write()
        self.timestamps, self.offsets, self._loaded = array("q"), array("i"), False
