"""What a log refuses or cannot do. The codes that a client sees are the caller's choice."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode, KafkaError


class CorruptLogError(ValueError):
    """Bytes on disk are not what was written. Carries file and position."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} at position {position}: {why}")
        self.path = path
        self.position = position
        self.why = why


class UnexpectedGap(KafkaError):
    """A batch that was fetched begins behind the log's end."""

    def __init__(self, end: int, base_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offsets {end} to {base_offset - 1} are missing"
        )
        self.place = (end, base_offset)


class OffsetOutOfRange(KafkaError):
    """Reading outside [log start offset, log end offset]."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is outside of {start} to {end}"
        )
