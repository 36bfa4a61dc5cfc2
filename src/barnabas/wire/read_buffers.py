"""Buffers that connections read into, lent for one read: a connection that rests holds none.

A buffer belongs to one connection from `take` to `give`, so that a read within another one gets its own.
"""

from __future__ import annotations

from barnabas import limits

SPARE_MAX = 8
"""Buffers that are kept; more are in use at a time only where frames are incomplete."""


class ReadBuffers:
    """The buffers of one process, of `limits.RECEIVE_BUFFER_BYTES` each."""

    def __init__(self) -> None:
        self._spare: list[memoryview] = []

    def take(self) -> memoryview:
        """A buffer with arbitrary content."""
        try:
            return self._spare.pop()  # without a look before: clients may have threads
        except IndexError:
            return memoryview(bytearray(limits.RECEIVE_BUFFER_BYTES))

    def give(self, buffer: memoryview) -> None:
        """Return a buffer that `take` lent; nothing may refer to it any more."""
        if len(self._spare) < SPARE_MAX:
            self._spare.append(buffer)

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._spare)


READ_BUFFERS = ReadBuffers()
