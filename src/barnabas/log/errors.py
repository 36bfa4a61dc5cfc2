"""Errors of a log. The caller chooses the error codes that a client sees."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode, KafkaError


class CorruptLogError(ValueError):
    """The bytes of a file at a position are not those that were written."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} at position {position}: {why}")
        self.path = path
        self.position = position
        self.why = why


class UnexpectedGap(KafkaError):
    """A fetched batch begins after the log end offset."""

    def __init__(self, end: int, base_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offsets {end} to {base_offset - 1} are missing"
        )
        self.place = (end, base_offset)


class OffsetOutOfRange(KafkaError):
    """A read at an offset outside of [log start offset, log end offset]."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is outside of {start} to {end}"
        )
