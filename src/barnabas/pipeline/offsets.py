"""Offsets as Spark's Kafka connector writes them, and what a trigger and its tasks read of them.

Owns the JSON (``{"topic": {"0": 123}}``), the split of a trigger's limit among partitions, and the
cut of ranges into tasks. Pure: no cluster, no Spark.

Source: Spark's structured-streaming Kafka integration guide (options and their meaning).
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

from barnabas.pipeline.errors import OptionError
from barnabas.types import TopicPartition, Uuid, is_int32

PartitionOffsets: TypeAlias = dict[TopicPartition, int]
OffsetsJson: TypeAlias = dict[str, dict[str, int]]

EARLIEST, LATEST = -2, -1
"""Timestamps of ListOffsets that are places in a log."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels of a fetch."""


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets ``start <= offset < end`` of one partition: what one task reads."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: Uuid | None = None
    """The id of the topic with which it was planned; None where brokers have no ids."""

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def of(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Spark's form, topics and partitions in order."""
    found: OffsetsJson = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = int(offsets[partition])
    return found


def from_json(raw: Mapping[str, Mapping[str, int]]) -> PartitionOffsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in raw.items()
        for partition, offset in partitions.items()
    }


def parse_offsets(option: str, text: str, *, least: int = EARLIEST) -> PartitionOffsets:
    """The option's JSON of whole numbers by topic and partition, none below `least`. Raises `OptionError`."""
    example = '{"topic": {"0": 23, "1": 42}}'
    try:
        raw: Any = json.loads(text)
        found = {
            TopicPartition(topic, _partition(partition)): number
            for topic, partitions in raw.items()
            for partition, number in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise OptionError(f"{option} is JSON as {example}, not {text!r}") from error
    for partition, number in found.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            places = " (-2 means earliest, -1 latest)" if least == EARLIEST else ""
            raise OptionError(
                f"{option} has a whole number from {least} on for {partition}{places}, not"
                f" {json.dumps(number)}"
            )
    return found


def _partition(number: Any) -> int:
    """A partition's number, as a number or as a key of JSON. Raises `ValueError`."""
    if isinstance(number, bool) or not is_int32(str(number)):
        raise ValueError(f"{number!r} is no partition")
    return int(number)


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The option's JSON of partition numbers by topic. Raises `OptionError`."""
    try:
        raw: Any = json.loads(text)
        found = [
            TopicPartition(str(name), _partition(partition))
            for name, partitions in raw.items()
            for partition in partitions
        ]
    except (ValueError, AttributeError, TypeError) as error:
        raise OptionError(f'{option} is JSON as {{"topic": [0, 1]}}, not {text!r}') from error
    if not found:
        raise OptionError(f"{option} names no partition")
    return tuple(sorted(found))


def limit_rows(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    rows_max: int,
    weights: Mapping[TopicPartition, int] | None = None,
) -> PartitionOffsets:
    """Ends so that all partitions together give about `rows_max`, each its share of what waits. With
    `weights`, the size of an offset by partition, `rows_max` is a size.

    A partition with anything waiting gets at least one, so that none starves.
    """
    waiting = {partition: max(latest[partition] - start[partition], 0) for partition in latest}
    weighed = weights or {}
    total = sum(size * weighed.get(partition, 1) for partition, size in waiting.items())
    if total <= rows_max:
        return dict(latest)
    ends: PartitionOffsets = {}
    for partition, size in waiting.items():
        share = rows_max * size / total
        taken = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = (
            min(start[partition] + taken, latest[partition]) if size else latest[partition]
        )
    return ends


TASKS_UNPACKED = 16
PACKED_ROWS = 16_384
PACKED_ROWS_FEW = 4_096
"""The rows of a task where there are no more ranges than `TASKS_UNPACKED`: starting a Python task costs more
than that many rows (some 40 ms beside 4), and work on the rows still spreads."""


def cut_ranges(
    ranges: list[Range], *, partitions_min: int | None = None, rows_max: int | None = None
) -> list[Range]:
    """Cut large ranges so that there are at least `partitions_min` where there are so many offsets, none
    above `rows_max`, and the largest as small as can be."""
    ranges = [whole for whole in ranges if whole.size > 0]
    parts = dict.fromkeys(ranges, 1)
    if rows_max is not None:
        parts = {whole: math.ceil(whole.size / rows_max) for whole in ranges}
    if partitions_min is not None:
        _cut_largest(parts, partitions_min)
    return [piece for whole in ranges for piece in _cut(whole, parts[whole])]


def pack_ranges(ranges: list[Range], *, rows_max: int | None = None) -> list[tuple[Range, ...]]:
    """Ranges by task: neighbours that are small together share one, because a task costs more than some
    thousand rows. None of several ranges is above `rows_max`."""
    rows_most = PACKED_ROWS if len(ranges) > TASKS_UNPACKED else PACKED_ROWS_FEW
    if rows_max is not None:
        rows_most = min(rows_most, rows_max)
    packs: list[list[Range]] = []
    room = 0
    for whole in ranges:
        if not packs or whole.size > room:
            packs.append([])
            room = rows_most
        packs[-1].append(whole)
        room -= whole.size
    return [tuple(pack) for pack in packs]


def _cut_largest(parts: dict[Range, int], partitions_min: int) -> None:
    """Count one more part of the range with the largest parts, until there are enough."""
    heap = [(-part.size / count, index, part) for index, (part, count) in enumerate(parts.items())]
    heapq.heapify(heap)
    missing = min(partitions_min, sum(part.size for part in parts)) - sum(parts.values())
    for _ in range(missing):
        _, index, largest = heap[0]
        parts[largest] += 1
        heapq.heapreplace(heap, (-largest.size / parts[largest], index, largest))


def _cut(whole: Range, parts: int) -> list[Range]:
    edges = [whole.start + whole.size * i // parts for i in range(parts + 1)]
    return [replace(whole, start=begin, end=end) for begin, end in pairwise(edges)]
