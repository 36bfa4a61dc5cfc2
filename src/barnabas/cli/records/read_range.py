"""Where reading begins and ends in each partition: by offset, counted from the end, or by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.cli.moments import parse_moment
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.host.client import Connected
from barnabas.types import TopicPartition, is_int64

BEGINNING, END = ("beginning", "earliest"), ("end", "latest")


def parse_offset(text: str) -> tuple[int, bool]:
    """An offset, or (with True) how many records before the end: of ``5``, ``-5``, ``beginning`` or
    ``end``. Raises ``ValueError``."""
    given = text.strip()
    if given in BEGINNING:
        return EARLIEST, False
    if given in END:
        return LATEST, False
    if not is_int64(given.removeprefix("-")):
        raise ValueError(
            f"an offset is a number, -N (from the end), beginning or end, not {text!r}"
        )
    number = int(given)
    return (-number, True) if given.startswith("-") else (number, False)


def starts_at(
    connected: Connected, partitions: Sequence[TopicPartition], offset: str
) -> dict[TopicPartition, int]:
    """The offset `offset` of each partition: a number, or `EARLIEST`, `LATEST`. Raises ``ValueError``."""
    number, from_end = parse_offset(offset)
    if not from_end:
        return dict.fromkeys(partitions, number)
    first = ends_of(connected, partitions, EARLIEST)
    return {tp: max(end - number, first[tp]) for tp, end in ends_of(connected, partitions).items()}


def starts_from(
    connected: Connected, partitions: Sequence[TopicPartition], at_ms: int
) -> dict[TopicPartition, int]:
    """The first record of each partition whose timestamp is `at_ms` or later; the end where there is none."""
    found = connected.offsets(partitions, at_ms)
    ends = ends_of(connected, partitions)
    return {tp: at.offset if at.offset >= 0 else ends[tp] for tp, at in found.items()}


def ends_of(
    connected: Connected,
    partitions: Sequence[TopicPartition],
    at: int = LATEST,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    found = connected.offsets(partitions, at, read_committed=read_committed)
    return {tp: place.offset for tp, place in found.items()}


@dataclass
class ReadRange:
    """Where reading ends. A time that is still to come is looked up when it has passed."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset after the last record of each partition; empty where there is no end."""
    until_ms: int | None = None
    """A time in the future: records of that time or later are not read."""

    def narrow(self, ends: dict[TopicPartition, int]) -> None:
        """End at these offsets too, whichever comes first."""
        self.ends = {tp: min(end, self.ends.get(tp, end)) for tp, end in ends.items()}

    def end_at_time(
        self,
        connected: Connected,
        partitions: Sequence[TopicPartition],
        text: str,
        now_ms: int,
    ) -> None:
        """Raises ``ValueError`` for what is no time."""
        at_ms = parse_moment(text, now_ms)
        if at_ms > now_ms:
            self.until_ms = at_ms
        else:
            self.narrow(starts_from(connected, partitions, at_ms))

    def on_time(
        self, connected: Connected, partitions: Sequence[TopicPartition], now_ms: int
    ) -> None:
        """Look the ends up once the time has passed."""
        if self.until_ms is not None and now_ms >= self.until_ms:
            self.narrow(starts_from(connected, partitions, self.until_ms))
            self.until_ms = None

    def has(self, partition: TopicPartition, offset: int, timestamp_ms: int) -> bool:
        """Whether a record belongs to it."""
        if self.until_ms is not None and timestamp_ms >= self.until_ms:
            return False
        end = self.ends.get(partition)
        return end is None or offset < end
