"""The codecs of record batches: none, gzip, snappy, lz4, zstd; by ``cramjam``.

Compressed bytes are untrusted, so their uncompressed size is bounded by `limit` bytes, whatever size they
claim. Snappy data are written in the chunked form of Java's ``SnappyOutputStream``; the form without chunks,
which librdkafka sends, is read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct

import cramjam

from barnabas.types import Buffer

DECOMPRESSED_BYTES_MAX = 1 << 30


class Codec(IntEnum):
    """The codec's number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionError(ValueError):
    """The bytes are invalid for this codec, or their uncompressed size is too large."""


class UnpacksTooFarError(CompressionError):
    """The uncompressed size is larger than the limit; the bytes may be valid."""


class NoRoomError(CompressionError):
    """The uncompressed bytes do not fit into the target; the compressed bytes may be valid."""


XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK = 32 * 1024
TARGET_TOO_SMALL = "failed to write whole buffer"
"""Text of the library's error where the target is too small."""
LZ4_HEADER = bytes.fromhex("04224d18604082")
"""Magic number, flags (independent blocks, no checksums), block size (64 KiB), checksum of the flags."""
LZ4_BLOCK = 64 * 1024
LZ4_UNCOMPRESSED = 1 << 31
_INT32 = Struct(">i")
_UINT32_LE = Struct("<I")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data`, compressed as in a batch. `level` None is the default of Kafka's producers; lz4 and snappy
    ignore the level. Raises :class:`CompressionError` for an unknown codec."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, 6 if level is None or level < 0 else level))
    if codec == Codec.LZ4:
        return _lz4_compress(memoryview(data))
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
    if codec == Codec.SNAPPY:
        return _snappy_compress(memoryview(data))
    raise CompressionError(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """The uncompressed bytes of `data`, at most `limit`. Raises :class:`CompressionError`."""
    if codec == Codec.NONE:
        return data
    try:
        if codec == Codec.SNAPPY:
            return _snappy_decompress(memoryview(data), limit)
        if codec == Codec.GZIP:
            return _bounded(cramjam.gzip.decompress_into, data, limit)
        if codec == Codec.LZ4:
            return _bounded(cramjam.lz4.decompress_into, data, limit)
        if codec == Codec.ZSTD:
            return _bounded(cramjam.zstd.decompress_into, data, limit)
    except cramjam.DecompressionError as error:
        raise CompressionError(f"{Codec(codec).name.lower()}: {error}") from error
    raise CompressionError(f"there is no codec {codec}")


def decompress_into(codec: int, data: Buffer, target: memoryview) -> int:
    """Decompress into `target`, which must be larger than the uncompressed bytes. Returns their number.
    Raises :class:`NoRoomError`, :class:`CompressionError`."""
    try:
        if codec == Codec.SNAPPY:
            used = _snappy_into(memoryview(data), target)
        elif codec in _INTO:
            used = _INTO[codec](data, target)
        else:
            raise CompressionError(f"there is no codec {codec}")
    except cramjam.DecompressionError as error:
        if TARGET_TOO_SMALL in str(error):
            raise NoRoomError(f"{len(target)} bytes are not enough") from error
        raise CompressionError(f"{Codec(codec).name.lower()}: {error}") from error
    if used >= len(target):  # exactly full: there may be more
        raise NoRoomError(f"{len(target)} bytes are not enough")
    return used


_INTO: dict[int, Callable[[Buffer, memoryview], int]] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def _bounded(into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> memoryview:
    """Decompress into a buffer that grows until it is large enough. Raises :class:`UnpacksTooFarError` where
    that exceeds `limit`."""
    size = max(len(data) * 4, 16 * 1024)
    while True:
        size = min(size, limit)
        target = bytearray(size)
        try:
            used = into(data, target)
        except cramjam.DecompressionError as error:
            # Only for a buffer that was too small is another attempt useful, not for invalid bytes.
            if TARGET_TOO_SMALL not in str(error):
                raise
            if size >= limit:
                raise UnpacksTooFarError(f"it unpacks to more than {limit} bytes") from error
            size *= 8
            continue
        if used < size or size >= limit:
            return memoryview(target)[:used]
        size *= 8  # exactly full: there may be more


def _lz4_compress(data: memoryview) -> bytes:
    """A frame of independent blocks. The library's own frames have blocks that depend on earlier ones, which
    Kafka's Java reader refuses."""
    out = bytearray(LZ4_HEADER)
    for start in range(0, len(data), LZ4_BLOCK):
        plain = data[start : start + LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += _UINT32_LE.pack(len(block))
            out += block
        else:
            out += _UINT32_LE.pack(len(plain) | LZ4_UNCOMPRESSED)
            out += plain
    out += _UINT32_LE.pack(0)
    return bytes(out)


def _snappy_compress(data: memoryview) -> bytes:
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK]))
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _snappy_decompress(data: memoryview, limit: int) -> bytes:
    if bytes(data[:8]) != XERIAL_MAGIC:
        return _snappy_block(data, limit)
    out = bytearray()
    for chunk in _snappy_chunks(data):
        out += _snappy_block(chunk, limit - len(out))
    return bytes(out)


def _snappy_into(data: memoryview, target: memoryview) -> int:
    """Decompress into `target`, as `_snappy_decompress` does into a buffer of its own."""
    if bytes(data[:8]) != XERIAL_MAGIC:
        return _snappy_block_into(data, target)
    used = 0
    for chunk in _snappy_chunks(data):
        used += _snappy_block_into(chunk, target[used:])
    return used


def _snappy_chunks(data: memoryview) -> Iterator[memoryview]:
    """The compressed blocks of the chunked form. Raises :class:`CompressionError`."""
    position = len(XERIAL_HEADER)
    while position + 4 <= len(data):
        (size,) = _INT32.unpack_from(data, position)
        position += 4
        if size < 0 or size > len(data) - position:
            raise CompressionError(f"snappy: a chunk claims {size} bytes")
        yield data[position : position + size]
        position += size


def _snappy_block(data: memoryview, limit: int) -> bytes:
    size = _claimed_size(data)
    if size > limit:
        raise UnpacksTooFarError(f"snappy: {len(data)} bytes claim {size}, {limit} are allowed")
    return bytes(cramjam.snappy.decompress_raw(data))


def _snappy_block_into(data: memoryview, target: memoryview) -> int:
    size = _claimed_size(data)
    if size >= len(target):
        raise NoRoomError(f"{len(target)} bytes are not enough")
    return int(cramjam.snappy.decompress_raw_into(data, target))


def _claimed_size(block: memoryview) -> int:
    """The uncompressed size by the first bytes of the block. Raises :class:`CompressionError`."""
    size = int(cramjam.snappy.decompress_raw_len(block))
    # Snappy encodes at most 64 bytes in three. A larger claim would allocate memory for nothing.
    if size > 64 * max(len(block), 1):
        raise CompressionError(f"snappy: {len(block)} bytes claim {size}")
    return size
