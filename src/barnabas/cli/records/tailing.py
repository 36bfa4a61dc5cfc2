"""Follows many topics at once, also those that come while one watches.

Records that arrive together are shown in the order of their timestamps; those of one partition stay in the
order of their offsets. A partition that appears later is shown from its beginning,
one that had no leader at first from where it would have been shown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from time import monotonic
from typing import Protocol
from zlib import crc32

from barnabas.cli.plain_text import on_one_line, say
from barnabas.cli.records.record_filter import RecordFilter
from barnabas.cli.records.record_json import Line
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import EARLIEST
from barnabas.client.records import ConsumerRecord
from barnabas.host.client import BlockingConsumer, Connected
from barnabas.host.process.end_request import EndRequest
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

POLL_MS = 200.0
NAMED_MAX = 5
"""So many partitions without a leader are named in a sentence."""
LOOK_S = 2.0
"""How often new topics and partitions are looked for."""
COLOURS = (36, 33, 32, 35, 34, 31, 96, 93, 92, 95)
"""The terminal's colours; each topic has the same one in every run."""


@dataclass(frozen=True)
class FollowedTopics:
    """Topics by name, and those whose whole name matches a pattern."""

    names: Collection[str] = ()
    pattern: re.Pattern[str] | None = None

    def leaders(self, connected: Connected) -> dict[TopicPartition, int]:
        """The partitions that exist now with their leaders, -1 for none; internal topics only by name."""
        return {
            TopicPartition(topic.name, number): partition.leader
            for topic in connected.topics()
            if topic.name in self.names or self._matches(topic.name)
            for number, partition in sorted(topic.partitions.items())
        }

    def _matches(self, name: str) -> bool:
        pattern = self.pattern
        return pattern is not None and not name.startswith("__") and bool(pattern.fullmatch(name))


@dataclass
class TailPrinter:
    """Where a record's line begins: with its topic, partition and offset."""

    line: Line
    is_coloured: bool
    is_named: bool = True
    wanted: RecordFilter = field(default_factory=RecordFilter)

    def write(self, records: Iterable[ConsumerRecord]) -> int:
        """Print what passes the filter; returns how many records that were."""
        shown = [record for record in by_time(records) if self.wanted.passes(record)]
        sys.stdout.buffer.write(
            b"".join(self._prefix(record) + self.line(record) for record in shown)
        )
        sys.stdout.buffer.flush()
        return len(shown)

    def _prefix(self, record: ConsumerRecord) -> bytes:
        if not self.is_named:
            return b""
        text = f"{on_one_line(record.topic)}[{record.partition}]@{record.offset}"
        if self.is_coloured:
            colour = COLOURS[crc32(record.topic.encode()) % len(COLOURS)]
            text = f"\x1b[{colour}m{text}\x1b[0m"
        return text.encode() + b"  "


def by_time(records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """The records in the order of their timestamps, and of offsets within a partition."""
    partitions = [
        list(found)
        for _, found in groupby(sorted(records, key=itemgetter(0, 1, 2)), key=itemgetter(0, 1))
    ]
    return [record for _, record in merge(*map(_rising, partitions), key=itemgetter(0))]


def _rising(records: list[ConsumerRecord]) -> list[tuple[int, ConsumerRecord]]:
    """Each record with the highest timestamp so far, so that a merge keeps the order of offsets."""
    highest, found = -1, []
    for record in records:
        highest = max(highest, record.timestamp_ms)
        found.append((highest, record))
    return found


class Starts(Protocol):
    """The offset, which is none below 0, at which each partition begins that exists when it is called. With
    `is_late` it had no leader before."""

    def __call__(
        self, partitions: list[TopicPartition], *, is_late: bool
    ) -> dict[TopicPartition, int]: ...


def follow(
    connected: Connected,
    topics: FollowedTopics,
    starts: Starts,
    printer: TailPrinter,
    max_records: int | None = None,
) -> None:
    """Print until it is enough or the program is asked to end."""
    consumer = connected.consumer()
    end_request = EndRequest()
    reading = _Reading(connected, topics, starts, consumer)
    reading.begin()
    printed, looked_s = 0, monotonic()
    try:
        while not end_request.is_made and (max_records is None or printed < max_records):
            left = 500 if max_records is None else max_records - printed
            printed += printer.write(consumer.poll(POLL_MS, left))
            if monotonic() - looked_s >= LOOK_S:
                looked_s = monotonic()
                reading.look()
    finally:
        consumer.close()


class _Reading:
    """The partitions that are read. One without a leader holds up no other: it is read once it has one."""

    def __init__(
        self,
        connected: Connected,
        topics: FollowedTopics,
        starts: Starts,
        consumer: BlockingConsumer,
    ) -> None:
        self._connected = connected
        self._topics = topics
        self._starts = starts
        self._inner = consumer.inner
        self._waiting: set[TopicPartition] = set()
        """Partitions whose first offset is not known, as no leader could be asked."""
        self._leaderless: set[TopicPartition] = set()
        """Those that are said to have no leader."""

    def begin(self) -> None:
        """Read the partitions that exist now."""
        present = self._topics.leaders(self._connected)
        led = [tp for tp, leader in present.items() if leader >= 0]
        self._waiting = present.keys() - led
        self._inner.assign(self._starts(led, is_late=False))
        self._say_who_leads(present)
        missing = sorted(set(self._topics.names) - {partition.topic for partition in present})
        if missing or not present:
            names = ", ".join(missing) or "no topic matches"
            say(f"followed once it exists: {names}" if missing else names, err=True)

    def look(self) -> None:
        """Read the partitions that have come, or have a leader again."""
        try:
            present = self._topics.leaders(self._connected)
            returned = [tp for tp in sorted(self._waiting) if present.get(tp, -1) >= 0]
            found = self._starts(returned, is_late=True) if returned else {}
        except (KafkaError, ChannelError):
            return  # the next look may find them
        self._waiting -= found.keys()
        self._say_who_leads(present)
        newcomers = present.keys() - self._waiting - set(self._inner.assignment) - found.keys()
        for topic in sorted({partition.topic for partition in newcomers}):
            say(f"{topic} is followed as well", err=True)
        found |= dict.fromkeys(sorted(newcomers), EARLIEST)
        if not found:
            return
        positions = {
            partition: position
            for partition in self._inner.assignment
            if (position := self._inner.position(partition)) is not None
        }
        self._inner.assign(positions | found)

    def _say_who_leads(self, present: Mapping[TopicPartition, int]) -> None:
        leaderless = {tp for tp, leader in present.items() if leader < 0}
        if lost := leaderless - self._leaderless:
            say(f"without a leader, shown once they have one: {_named(lost)}", err=True)
        if back := (self._leaderless - leaderless) & present.keys():
            say(f"with a leader again: {_named(back)}", err=True)
        self._leaderless = leaderless


def _named(partitions: Collection[TopicPartition]) -> str:
    first = [str(partition) for partition in sorted(partitions)[:NAMED_MAX]]
    more = len(partitions) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
