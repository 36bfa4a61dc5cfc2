"""Uncompressed records of the batches that are decoded together, in one buffer that is reused.

Owns that buffer. It is not filled with zeros, and has the size that one group of batches needs: a buffer of
the largest possible size per batch took most of a Spark worker's memory at high compression. A section that
`take` returns is valid until :meth:`Unpacker.clear`. Compressed bytes are untrusted, so their uncompressed
size is bounded.
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
"""Size of the buffer: 8 MiB, and one more byte, as a codec needs room for one byte beyond its output."""
BATCH_BYTES_MAX = 0x7FFFFFFF
"""A record batch of more uncompressed bytes does not fit Arrow's 32-bit binary columns."""


class Unpacker:
    """The buffer of one reader."""

    def __init__(self) -> None:
        self._room = np.empty(ROOM_BYTES, np.uint8)
        self._used = 0

    def clear(self) -> None:
        """Free the buffer: sections that `take` returned are no longer valid."""
        if len(self._room) > ROOM_BYTES > self._used:  # the last group needed no large one
            self._room = np.empty(ROOM_BYTES, np.uint8)
        self._used = 0

    def take(self, batch: BatchView, bytes_max: int | None) -> kernels.Bytes | None:
        """The uncompressed records section of a batch, read-only. None where it has more than `bytes_max`
        bytes or does not fit into the rest of the buffer. Raises :class:`CorruptBatchError`."""
        section = self._section(batch, bytes_max)
        if section is None or (bytes_max is not None and len(section) > bytes_max):
            return None
        if len(section) > BATCH_BYTES_MAX:
            raise CorruptBatchError(batch.position, f"{len(section)} bytes uncompressed")
        # A record takes at least 7 bytes. A larger claimed count would allocate columns for nothing.
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
                if len(self._room) > DECOMPRESSED_BYTES_MAX:  # the largest buffer is too small
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
