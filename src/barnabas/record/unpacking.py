"""Uncompressed records of the batches that are decoded together, in one buffer that is used again.

Owns that buffer. It is not zeroed, and not larger than what a group of batches needs: a buffer for each, as
large as a codec might want, was most of a Spark worker's memory at high compression. What is taken is valid
until :meth:`Unpacker.clear`. Compressed bytes are untrusted: what unpacks to more than a bound is refused.
"""

from __future__ import annotations

import numpy as np

from barnabas.record import columnar_kernels as kernels
from barnabas.record.batch import BatchView, CorruptBatchError
from barnabas.record.compression import (
    DECOMPRESSED_BYTES_MAX,
    CompressionError,
    NoRoomError,
    decompress_into,
)

ROOM_BYTES = (8 << 20) + 1
"""A codec needs one byte more than it unpacks to."""
BATCH_BYTES_MAX = 0x7FFFFFFF
"""A record batch of more uncompressed bytes does not fit Arrow's 32-bit binary columns."""


class Unpacker:
    """For one reader."""

    def __init__(self) -> None:
        self._room = np.empty(ROOM_BYTES, np.uint8)
        self._used = 0

    def clear(self) -> None:
        """What was taken is of no use any more."""
        if len(self._room) > ROOM_BYTES > self._used:  # no large batch follows a large batch
            self._room = np.empty(ROOM_BYTES, np.uint8)
        self._used = 0

    def take(self, batch: BatchView, bytes_max: int | None) -> kernels.Bytes | None:
        """The uncompressed records section of a batch; None where it has more than `bytes_max` bytes, or no
        room beside what was taken before. Raises :class:`CorruptBatchError`."""
        section = self._section(batch, bytes_max)
        if section is None or (bytes_max is not None and len(section) > bytes_max):
            return None
        if len(section) > BATCH_BYTES_MAX:
            raise CorruptBatchError(batch.position, f"{len(section)} bytes uncompressed")
        # A record takes at least 7 bytes: a claimed count beyond that would only cost memory.
        if batch.header.record_count * 7 > len(section):
            raise CorruptBatchError(
                batch.position, f"{batch.header.record_count} records in {len(section)} bytes"
            )
        return section

    def _section(self, batch: BatchView, bytes_max: int | None) -> kernels.Bytes | None:
        if not batch.header.codec:
            return kernels.frozen(np.frombuffer(batch.payload, np.uint8))
        while True:
            target = self._room.data[self._used :]
            try:
                size = decompress_into(batch.header.codec, batch.payload, target)
            except NoRoomError as error:
                if self._used or bytes_max is not None:
                    return None
                if len(self._room) > DECOMPRESSED_BYTES_MAX:  # it unpacks to that much at least
                    why = f"it unpacks to more than {DECOMPRESSED_BYTES_MAX} bytes"
                    raise CorruptBatchError(batch.position, why) from error
                self._room = np.empty(
                    min(len(self._room) * 4, DECOMPRESSED_BYTES_MAX + 1), np.uint8
                )
                continue
            except CompressionError as error:
                raise CorruptBatchError(batch.position, str(error)) from error
            section = self._room[self._used : self._used + size]
            self._used += size
            return kernels.frozen(section)
