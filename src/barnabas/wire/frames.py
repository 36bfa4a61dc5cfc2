"""Frames out of a stream of bytes: four bytes of size, then the frame. Sans-IO.

Owns the receive buffers of one stream. Small frames are read many at once from one buffer and
handed on as their own small copies; a frame that is larger than that buffer gets a buffer of its
own size, into which the rest is received: no byte of it is copied again. A claimed size is
believed only as far as the peer has sent frames of that order before, and then step by step: memory
is taken as bytes arrive, so a peer pays for what it claims.

Invariants: a frame handed out is read-only and never changes or moves afterwards; frames come
in order, each once; nothing is handed out after an error.

Source: Kafka protocol guide, "Common request and response structure".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct
from typing import cast

from barnabas import limits
from barnabas.wire.codec import MalformedError

SIZE = Struct(">i")
_size_at = SIZE.unpack_from
SMALL_BUFFER_BYTES = 8 * 1024
LARGE_BUFFER_BYTES = limits.RECEIVE_BUFFER_BYTES
_NO_BUFFER = memoryview(b"")
"""Of a connection by which nothing has come: many are refused."""
FIRST_STEP_BYTES = 1024 * 1024
"""What a claimed size gets at first where the peer has sent nothing larger; doubled whenever full."""


def _unfilled_buffers() -> Callable[[int], bytearray]:
    """Makes buffers without filling them with zeros first, where the interpreter can: they are
    handed out only when every byte was received."""
    try:
        make = ctypes.pythonapi.PyByteArray_FromStringAndSize
    except AttributeError:
        return bytearray
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
    return lambda size: cast(bytearray, make(None, size))


_unfilled = _unfilled_buffers()


class FrameReader:
    """The receiving half of a connection; the buffer methods are those of ``ports.Receiver``.

    `on_frame` gets each frame without its size. `buffer_updated` raises `MalformedError` where a
    size is negative or above `max_frame_bytes`; the stream is of no use afterwards.
    """

    __slots__ = (
        "_buffer",
        "_end",
        "_filled",
        "_frame",
        "_frame_size",
        "_largest",
        "_on_frame",
        "_start",
        "_view",
        "max_frame_bytes",
    )

    def __init__(self, on_frame: Callable[[memoryview], None], max_frame_bytes: int) -> None:
        self._on_frame = on_frame
        self.max_frame_bytes = max_frame_bytes
        self._buffer = _NO_BUFFER
        self._start = self._end = 0  # what of the shared buffer holds bytes not yet handed on
        self._frame: bytearray | None = None  # a large frame being received
        self._frame_size = self._filled = 0
        self._largest = 0  # frame that this peer has sent whole
        self._view: memoryview | None = None  # the writable view of `_frame` given out last

    @property
    def _is_strange(self) -> bool:
        """Whether only small frames are allowed, as before authentication: many such peers may come, and
        each gets memory as it sends, not as it claims to."""
        return self.max_frame_bytes < FIRST_STEP_BYTES

    @property
    def pending_bytes(self) -> int:
        """Received bytes of a frame that is not complete yet."""
        return self._filled if self._frame is not None else self._end - self._start

    def get_buffer(self) -> memoryview:
        if self._frame is None:
            if self._end:
                return self._buffer[self._end :]
            if self._buffer is _NO_BUFFER:
                self._buffer = memoryview(bytearray(SMALL_BUFFER_BYTES))
            return self._buffer
        if self._filled == len(self._frame):
            self._grow(self._frame)
        self._view = memoryview(self._frame)[self._filled :]
        return self._view

    def buffer_updated(self, size: int) -> None:
        if self._frame is not None:
            self._take_large(self._frame, size)
            return
        buffer, start, end = self._buffer, self._start, self._end + size
        self._end = end
        filled_up = end == len(buffer)
        while end - start >= 4:
            (size,) = _size_at(buffer, start)
            if not 0 <= size <= self.max_frame_bytes:
                raise MalformedError(
                    f"a frame claims {size} bytes, {self.max_frame_bytes} are allowed"
                )
            stop = start + 4 + size
            if stop > end:
                if 4 + size > len(buffer) // 2:
                    self._start = self._end = 0
                    self._begin_large(size, buffer[start + 4 : end])
                    start = end = 0
                break
            # Set before the call: what it raises leaves the reader in order.
            self._start = stop
            self._on_frame(memoryview(buffer[start + 4 : stop].tobytes()))
            start = stop
        if start == end and not filled_up:
            self._start = self._end = 0
        else:
            self._keep_unfinished(start, end, filled_up)

    def _take_large(self, frame: bytearray, size: int) -> None:
        self._filled += size
        if self._filled == self._frame_size:
            self._largest = max(self._largest, self._filled)
            self._frame = self._view = None
            self._on_frame(memoryview(frame).toreadonly())

    def _keep_unfinished(self, start: int, end: int, filled_up: bool) -> None:
        """Bring the unfinished rest to the front, where there is room for all of its frame."""
        left = end - start
        if filled_up and len(self._buffer) < LARGE_BUFFER_BYTES and not self._is_strange:
            larger = memoryview(bytearray(LARGE_BUFFER_BYTES))
            larger[:left] = self._buffer[start:end]
            self._buffer = larger
        elif left and start:
            self._buffer[:left] = bytes(self._buffer[start:end])
        self._start, self._end = 0, left

    def _begin_large(self, size: int, first: memoryview) -> None:
        step = SMALL_BUFFER_BYTES if self._is_strange else FIRST_STEP_BYTES
        self._frame = _unfilled(min(size, max(step, len(first), self._largest)))
        self._frame[: len(first)] = first
        self._frame_size, self._filled = size, len(first)

    def _grow(self, frame: bytearray) -> None:
        if self._view is not None:
            self._view.release()
            self._view = None
        more = min(self._frame_size - len(frame), len(frame))
        try:
            frame += bytes(more)
        except BufferError:  # a memoryview still refers to the old buffer: allocate another
            self._frame = bytearray(frame) + bytes(more)
