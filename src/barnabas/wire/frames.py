"""Splits a stream of bytes into frames: four bytes of size, then the frame. Sans-IO.

Owns the receive buffers of one stream. Many small frames are received into one buffer, which is lent for the
read (`read_buffers`), and each is passed on as a copy. A peer that has not authenticated has a small one of
its own. An incomplete frame that takes more than half of that buffer gets its own buffer, into which the
rest of it is received without another copy. That buffer has the claimed size at once only up to 1 MiB, or if
the peer has sent a frame as large before. Otherwise it grows as bytes arrive, so that a peer cannot make the
node allocate memory by a claim alone.

Invariants: a frame that was passed on is read-only and never changes or moves; frames come in order, each
once; none is passed on after an error.

Source: Kafka protocol guide, "Common request and response structure".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct
from typing import cast

from barnabas import limits
from barnabas.wire.codec import MalformedError
from barnabas.wire.read_buffers import READ_BUFFERS

SIZE = Struct(">i")
_size_at = SIZE.unpack_from
SMALL_BUFFER_BYTES = 8 * 1024
LARGE_BUFFER_BYTES = limits.RECEIVE_BUFFER_BYTES
_NO_BUFFER = memoryview(b"")
"""The buffer of a connection that has received nothing; so a connection that is refused takes no memory."""
FIRST_STEP_BYTES = 1024 * 1024
"""First size of the buffer of a large frame, unless the peer has sent a larger one; doubled when full."""


def _unfilled_buffers() -> Callable[[int], bytearray]:
    """A function that makes buffers of a given size. Where the interpreter allows it, they are not filled
    with zeros: a frame is passed on only when all its bytes were received."""
    try:
        make = ctypes.pythonapi.PyByteArray_FromStringAndSize
    except AttributeError:
        return bytearray
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
    return lambda size: cast(bytearray, make(None, size))


_unfilled = _unfilled_buffers()


class FrameReader:
    """The receiving half of a connection, with the buffer methods of ``ports.Receiver``.

    `on_frame` is called with each frame, without its size. `buffer_updated` raises `MalformedError` where a
    size is negative or above `max_frame_bytes`; the stream cannot be used after that.
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
        self._start = self._end = 0  # range of unprocessed bytes in the shared buffer
        self._frame: bytearray | None = None  # a large frame being received
        self._frame_size = self._filled = 0
        self._largest = 0  # size of the largest frame that the peer has sent completely
        self._view: memoryview | None = None  # the writable view of `_frame` given out last

    @property
    def _is_strange(self) -> bool:
        """Whether only small frames are allowed, as before authentication. Then buffers grow in small
        steps, as there may be many such peers."""
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
                self._buffer = (
                    memoryview(bytearray(SMALL_BUFFER_BYTES))
                    if self._is_strange
                    else READ_BUFFERS.take()
                )
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
            # Set before the call, so that the reader is consistent if it raises.
            self._start = stop
            self._on_frame(memoryview(buffer[start + 4 : stop].tobytes()))
            start = stop
        if start == end:
            self._start = self._end = 0
            self._return_buffer()
        else:
            self._keep_unfinished(start, end, filled_up)

    def _take_large(self, frame: bytearray, size: int) -> None:
        self._filled += size
        if self._filled == self._frame_size:
            self._largest = max(self._largest, self._filled)
            self._frame = self._view = None
            self._on_frame(memoryview(frame).toreadonly())

    def _return_buffer(self) -> None:
        """Nothing is left in the buffer: another connection may use it."""
        if len(self._buffer) == LARGE_BUFFER_BYTES:
            READ_BUFFERS.give(self._buffer)
            self._buffer = _NO_BUFFER
        elif not self._is_strange:
            self._buffer = _NO_BUFFER

    def _keep_unfinished(self, start: int, end: int, filled_up: bool) -> None:
        """Move the incomplete frame to the front of the buffer, which makes room for the rest of it."""
        left = end - start
        if filled_up and len(self._buffer) < LARGE_BUFFER_BYTES and not self._is_strange:
            larger = READ_BUFFERS.take()
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
