"""ZooKeeper's serialization (jute): big-endian numbers, byte strings and vectors with a length before them.

Pure. A reader checks every bound and raises `JuteError`; a length of -1 is null. A null byte string is read
as `NULL`, which is empty and is written as null again. Strings that are not UTF-8 are decoded as by Java.

Source: ``org.apache.jute.BinaryInputArchive``, ``BinaryOutputArchive``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.types import Buffer
from barnabas.wire.text import java_text

T = TypeVar("T")

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


class JuteError(ValueError):
    """Bytes that are no record of the expected kind."""


class _Null(bytes):
    """Null, where the other end tells it from an empty byte string."""


NULL = _Null()


class JuteReader:
    """Reads `data` from its beginning."""

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data)
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._at

    def _take(self, size: int) -> memoryview:
        if size > self.left:
            raise JuteError(f"{size} bytes are announced, {self.left} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        return int(_INT.unpack(self._take(4))[0])

    def long(self) -> int:
        return int(_LONG.unpack(self._take(8))[0])

    def bool(self) -> bool:
        return self._take(1)[0] != 0

    def buffer(self) -> bytes:
        size = self.number()
        if size < -1:
            raise JuteError(f"a length of {size}")
        return NULL if size == -1 else bytes(self._take(size))

    def text(self) -> str:
        return java_text(self.buffer())

    def vector(self, item: Callable[[], T]) -> tuple[T, ...]:
        size = self.number()
        if size > self.left:
            raise JuteError(f"{size} items are announced, {self.left} bytes are left")
        return tuple(item() for _ in range(size))

    def rest(self) -> bytes:
        return bytes(self._take(self.left))


class JuteWriter:
    """Collects one record."""

    def __init__(self) -> None:
        self._data = bytearray()

    def bytes(self) -> bytes:
        return bytes(self._data)

    def number(self, value: int) -> JuteWriter:
        self._data += _INT.pack(value)
        return self

    def long(self, value: int) -> JuteWriter:
        self._data += _LONG.pack(value)
        return self

    def bool(self, value: bool) -> JuteWriter:
        self._data.append(value)
        return self

    def buffer(self, value: Buffer) -> JuteWriter:
        if value is NULL:
            return self.number(-1)
        self._data += _INT.pack(len(value))
        self._data += value
        return self

    def text(self, value: str) -> JuteWriter:
        return self.buffer(value.encode("utf-8", "surrogatepass"))

    def vector(self, values: Iterable[T], item: Callable[[T], object]) -> JuteWriter:
        values = tuple(values)
        self.number(len(values))
        for value in values:
            item(value)
        return self

    def raw(self, value: Buffer) -> JuteWriter:
        """Bytes as they are, without a length."""
        self._data += value
        return self
