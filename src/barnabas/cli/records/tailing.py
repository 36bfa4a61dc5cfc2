"""Follows many topics at once, also those that come while one watches.

Records that arrive together are shown in the order of their timestamps; those of one partition stay in the
order of their offsets. A partition that appears later is shown from its beginning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from time import monotonic
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
LOOK_S = 2.0
"""How often new topics and partitions are looked for."""
COLOURS = (36, 33, 32, 35, 34, 31, 96, 93, 92, 95)
"""The terminal's colours; each topic has the same one in every run."""


@dataclass(frozen=True)
class FollowedTopics:
    """Topics by name, and those whose whole name matches a pattern."""

    names: Collection[str] = ()
    pattern: re.Pattern[str] | None = None

    def partitions(self, connected: Connected) -> list[TopicPartition]:
        """Those that exist now, internal topics only by name."""
        return [
            TopicPartition(topic.name, number)
            for topic in connected.topics()
            if topic.name in self.names or self._matches(topic.name)
            for number in sorted(topic.partitions)
        ]

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


def follow(
    connected: Connected,
    topics: FollowedTopics,
    starts: Callable[[list[TopicPartition]], dict[TopicPartition, int]],
    printer: TailPrinter,
    max_records: int | None = None,
) -> None:
    """Print until it is enough or the program is asked to end. `starts` gives the offset, which is none
    below 0, at which each partition that exists now begins."""
    consumer = connected.consumer()
    end_request = EndRequest()
    consumer.inner.assign(starts(topics.partitions(connected)))
    printed, looked_s = 0, monotonic()
    try:
        while not end_request.is_made and (max_records is None or printed < max_records):
            left = 500 if max_records is None else max_records - printed
            printed += printer.write(consumer.poll(POLL_MS, left))
            if monotonic() - looked_s >= LOOK_S:
                looked_s = monotonic()
                _take_newcomers(connected, topics, consumer)
    finally:
        consumer.close()


def _take_newcomers(
    connected: Connected, topics: FollowedTopics, consumer: BlockingConsumer
) -> None:
    inner = consumer.inner
    try:
        present = topics.partitions(connected)
    except (KafkaError, ChannelError):
        return  # the next look may find them
    newcomers = set(present) - set(inner.assignment)
    if not newcomers:
        return
    for topic in sorted({partition.topic for partition in newcomers}):
        say(f"{topic} is followed as well", err=True)
    positions = {
        partition: position
        for partition in inner.assignment
        if (position := inner.position(partition)) is not None
    }
    inner.assign({**positions, **dict.fromkeys(sorted(newcomers), EARLIEST)})
