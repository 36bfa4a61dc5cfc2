"""Integers of 4 and 8 bytes from byte arrays, and CRC-32C, for compiled loops.

Where the machine has an instruction for it, each operation is one instruction; elsewhere it is a loop over
bytes, with the same result. Callers check bounds. Machine code is cached on disk per processor type, see
:mod:`barnabas.record.columnar_kernels`.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from barnabas.record.columnar_kernels import COMPILED, Bytes, Longs, compiled

if COMPILED:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

Words = npt.NDArray[np.uint64]
_EIGHT_BYTES = 8
_EIGHT = np.uint64(8)
_TABLE_BYTES = 256
_CASTAGNOLI = 0x82F63B78


def _has_crc() -> bool:
    """Whether the processor has an instruction for CRC-32C (SSE 4.2)."""
    if not COMPILED or platform.machine() not in ("x86_64", "AMD64"):
        return False
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("sse4.2"))


def _crc_tables() -> Longs:
    """The eight tables of CRC-32C by slicing-by-8, one for each byte of a word; shape (8, 256)."""
    tables = np.zeros((8, _TABLE_BYTES), np.int64)
    for byte in range(_TABLE_BYTES):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        tables[0, byte] = value
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


_CRC = _crc_tables()


# -- loading ----------------------------------------------------------------------------------------


@compiled
def little_endian(data: Bytes, at: int) -> np.uint64:
    """The unsigned little-endian number of eight bytes at `at`."""
    word = np.uint64(0)
    for i in range(7, -1, -1):
        word = (word << _EIGHT) | np.uint64(data[at + i])
    return word


@compiled
def big_endian(data: Bytes, at: int, size: int) -> int:
    """The signed big-endian number of `size` bytes at `at`."""
    value = int(data[at])
    if value >= 0x80:
        value -= 0x100
    for i in range(1, size):
        value = value << 8 | int(data[at + i])
    return value


@compiled
def big_endian_64(data: Bytes, at: int) -> int:
    return big_endian(data, at, 8)


@compiled
def big_endian_32(data: Bytes, at: int) -> int:
    return big_endian(data, at, 4)


little_64: Callable[[Bytes, int], np.uint64] = little_endian
"""The unsigned little-endian number of eight bytes at a position."""
big_64: Callable[[Bytes, int], int] = big_endian_64
"""The signed big-endian number of eight bytes at a position."""
big_32: Callable[[Bytes, int], int] = big_endian_32
"""The signed big-endian number of four bytes at a position."""

if COMPILED and sys.byteorder == "little":

    def _load(bits: int, swapped: bool, result: Any) -> Any:
        """A numba intrinsic (array, position) -> the word of `bits` bits there, of the numba type `result`.
        With `swapped`, the bytes are big-endian."""

        def loading(_context: Any, data: Any, at: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                array = context.make_array(signature.args[0])(context, builder, arguments[0])
                place = builder.gep(array.data, [arguments[1]])
                place = builder.bitcast(place, ir.IntType(bits).as_pointer())
                word = builder.load(place, align=1)
                word = builder.bswap(word) if swapped else word
                return builder.sext(word, ir.IntType(64)) if bits == 32 else word

            return result(data, types.int64), generate

        return intrinsic(loading)

    little_64 = _load(64, False, types.uint64)
    big_64 = _load(64, True, types.int64)
    big_32 = _load(32, True, types.int64)


# -- memory that will be needed ---------------------------------------------------------------------


@compiled
def no_prefetch(words: Words, at: int) -> None:
    pass


prefetch: Callable[[Words, int], None] = no_prefetch
"""Start to load the cache line of ``words[at]`` into the processor's cache, for a write."""

if COMPILED:

    def _prefetch(_context: Any, words: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            number = ir.IntType(32)
            place = builder.gep(array.data, [arguments[1]])
            place = builder.bitcast(place, ir.IntType(8).as_pointer())
            kinds = [place.type, number, number, number]
            function = ir.FunctionType(ir.VoidType(), kinds)
            fetch = builder.module.declare_intrinsic("llvm.prefetch", [place.type], function)
            builder.call(fetch, [place, number(1), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(words, types.int64), generate

    prefetch = intrinsic(_prefetch)


# -- CRC-32C ----------------------------------------------------------------------------------------


@compiled
def crc32c_by_tables(data: Bytes, start: int, end: int) -> int:
    crc, at = 0xFFFFFFFF, start
    while end - at >= _EIGHT_BYTES:
        crc ^= (
            int(data[at])
            | int(data[at + 1]) << 8
            | int(data[at + 2]) << 16
            | int(data[at + 3]) << 24
        )
        crc = (
            _CRC[7, crc & 0xFF]
            ^ _CRC[6, crc >> 8 & 0xFF]
            ^ _CRC[5, crc >> 16 & 0xFF]
            ^ _CRC[4, crc >> 24]
            ^ _CRC[3, data[at + 4]]
            ^ _CRC[2, data[at + 5]]
            ^ _CRC[1, data[at + 6]]
            ^ _CRC[0, data[at + 7]]
        )
        at += _EIGHT_BYTES
    while at < end:
        crc = crc >> 8 ^ _CRC[0, (crc ^ int(data[at])) & 0xFF]
        at += 1
    return int(crc ^ 0xFFFFFFFF)


crc32c: Callable[[Bytes, int, int], int] = crc32c_by_tables
"""CRC-32C of ``data[start:end]``; for short ranges."""

if _has_crc():

    def _crc_step(name: str, bits: int, more_bits: int, signature: Any) -> Any:
        """A numba intrinsic (CRC so far, next word) -> CRC, for the LLVM function `name`. `bits` is the
        width of the CRC, `more_bits` that of the word."""

        def stepping(_context: Any, crc: Any, more: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                crc_type, more_type = ir.IntType(bits), ir.IntType(more_bits)
                function = ir.FunctionType(crc_type, [crc_type, more_type])
                step = builder.module.declare_intrinsic(name, fnty=function)
                return builder.call(step, arguments)

            return signature, generate

        return intrinsic(stepping)

    _crc_word = _crc_step(
        "llvm.x86.sse42.crc32.64.64", 64, 64, types.uint64(types.uint64, types.uint64)
    )
    _crc_byte = _crc_step(
        "llvm.x86.sse42.crc32.32.8", 32, 8, types.uint32(types.uint32, types.uint8)
    )

    @compiled
    def crc32c_by_instruction(data: Bytes, start: int, end: int) -> int:
        word, at = np.uint64(0xFFFFFFFF), start
        while end - at >= _EIGHT_BYTES:
            word = _crc_word(word, little_64(data, at))
            at += _EIGHT_BYTES
        crc = np.uint32(word)
        while at < end:
            crc = _crc_byte(crc, data[at])
            at += 1
        return int(crc) ^ 0xFFFFFFFF

    crc32c = crc32c_by_instruction
