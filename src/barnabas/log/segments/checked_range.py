"""The part of a segment that this process has written or checked by CRC.

Batches written before the process started are checked when they are first read. Offsets and leader epochs,
which no CRC covers, are compared with those of the neighbouring batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.log.errors import CorruptLogError
from barnabas.ports import File
from barnabas.record.batch import HEADER_SIZE, CorruptBatchError, iterate, read_header
from barnabas.types import Buffer

SHORTER = "the file is shorter than what was written to it"


class BatchFile(Protocol):
    """The part of a segment that a check uses."""

    path: str
    base_offset: int
    size: int

    def file(self) -> File: ...


class CheckedRange:
    """The checked part of one segment, as positions in its file, in bytes."""

    __slots__ = ("_from", "_read_to", "_to", "trusted_from")

    def __init__(self, size: int) -> None:
        """`size`: bytes of the file when this process opened it."""
        self.trusted_from = size
        """From this position on this process wrote or checked all batches."""
        self._from = self._to = 0
        """Reads have checked the batches between these positions."""
        self._read_to = 0
        """End of the last read, after `_to` by less than a batch: most reads end within a batch."""

    def check_read(
        self,
        segment: BatchFile,
        position: int,
        data: Buffer,
        bound: int,
        epoch_from: Callable[[int], int],
    ) -> None:
        """Check the complete batches of `data`, which was read at `position` (before `trusted_from`), unless
        an earlier read did. `bound` is the segment's end offset; `epoch_from(bound)` is the leader epoch of
        the next segment. Raises :class:`CorruptLogError`."""
        end = position + len(data)
        if self._from <= position and end <= self._read_to:
            return
        if end > self.trusted_from:
            data = memoryview(data)[: self.trusted_from - position]
        read_to = position + len(data)
        end, next_offset, epoch = check_run(segment.path, segment.base_offset, position, data)
        if end <= segment.size - HEADER_SIZE:
            header = segment.file().read_at(end, HEADER_SIZE)
            if len(header) < HEADER_SIZE:
                raise CorruptLogError(segment.path, end, SHORTER)
            following = read_header(header)
            bound = following.base_offset
            if following.leader_epoch < epoch:
                raise CorruptLogError(segment.path, end, "the leader epochs descend")
        elif epoch_from(bound) < epoch:
            raise CorruptLogError(segment.path, end, "the leader epochs descend")
        if bound < next_offset:  # no CRC covers offsets
            raise CorruptLogError(segment.path, end, "the offsets do not ascend")
        if self._from <= position <= self._to:
            self._to, self._read_to = max(self._to, end), max(self._read_to, read_to)
        else:
            self._from, self._to, self._read_to = position, end, read_to
        if self._to >= self.trusted_from:
            self.trusted_from = self._from

    def trust_from(self, position: int) -> None:
        """Batches from `position` on were checked."""
        self.trusted_from = min(self.trusted_from, position)

    def cut(self, position: int) -> None:
        """The file was truncated at `position`."""
        self.trusted_from = min(self.trusted_from, position)
        self._to, self._read_to = min(self._to, position), min(self._read_to, position)

    def clear(self, size: int) -> None:
        """Forget all checks: the file has `size` bytes that may have changed."""
        self.trusted_from = size
        self._from = self._to = self._read_to = 0


def check_run(path: str, base_offset: int, position: int, data: Buffer) -> tuple[int, int, int]:
    """Check the complete batches in `data`, which was read at `position` of a file. Returns (end position,
    end offset, leader epoch of the last batch). Raises :class:`CorruptLogError`."""
    end, next_offset, epoch = position, base_offset, -1
    try:
        for batch in iterate(data, crc=True):
            if batch.header.base_offset < next_offset:  # the CRC does not cover offsets
                raise CorruptBatchError(batch.position, "the offsets do not ascend")
            if batch.header.leader_epoch < epoch:  # nor leader epochs
                raise CorruptBatchError(batch.position, "the leader epochs descend")
            next_offset, epoch = batch.header.next_offset, batch.header.leader_epoch
            end = position + batch.position + batch.header.size
    except CorruptBatchError as error:
        raise CorruptLogError(path, position + error.position, error.why) from error
    return end, next_offset, epoch
