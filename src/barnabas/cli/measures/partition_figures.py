"""Sizes and rates of partitions, by what any broker answers: DescribeLogDirs and ListOffsets.

A rate is what two looks differ by. Records per second are counted by end offsets. Bytes per second are the
growth of the leader's log, or the records per second times the mean size of a record in that log, whichever
is more: a log from which retention deletes grows more slowly than it is written. Where the log of a
compacted topic has gaps, the mean is too small.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from barnabas.cli.connection.many_brokers import ask_brokers
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.messages.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)

Sizes = dict[tuple[int, TopicPartition], int]
"""Bytes by broker and partition."""


class Rate(NamedTuple):
    """The records and bytes that are written to a partition in a second."""

    records: float
    bytes: float


@dataclass(slots=True)
class Look:
    """The answers of all brokers at one moment. A partition without a leader has no offsets."""

    at_s: float
    sizes: Sizes
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)
    """Brokers that told no sizes, and why."""


class PartitionFigures(NamedTuple):
    """The last look, and the rates between it and the first one; `rates` is None without a first."""

    look: Look
    rates: dict[TopicPartition, Rate] | None


def look_at(connected: Connected, views: Sequence[TopicMetadata], *, starts: bool = True) -> Look:
    """Ask every broker for sizes and every leader for offsets."""
    sizes, silent = sizes_of(connected, views)
    led = [
        TopicPartition(view.name, index)
        for view in views
        for index, partition in sorted(view.partitions.items())
        if partition.leader >= 0
    ]
    look = Look(time.monotonic(), sizes, silent=silent)
    if led:
        look.ends = {tp: at.offset for tp, at in connected.offsets(led, LATEST).items()}
        if starts:
            look.starts = {tp: at.offset for tp, at in connected.offsets(led, EARLIEST).items()}
    return look


def measure(
    connected: Connected, views: Sequence[TopicMetadata], sample_s: float | None
) -> PartitionFigures:
    """The figures of these topics. With `sample_s`, seconds between two looks, also the rates."""
    if sample_s is None:
        return PartitionFigures(look_at(connected, views), None)
    first = look_at(connected, views, starts=False)
    connected.run_for(sample_s * 1000)
    second = look_at(connected, views)
    return PartitionFigures(second, rates_between(first, second, leaders_in(views)))


def leaders_in(views: Sequence[TopicMetadata]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(view.name, index): partition.leader
        for view in views
        for index, partition in view.partitions.items()
    }


def rates_between(
    first: Look, second: Look, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Rate]:
    """The rates of the partitions that both looks know."""
    passed_s = max(second.at_s - first.at_s, 1e-3)
    rates = {}
    for tp, end in second.ends.items():
        if tp not in first.ends:
            continue
        records = max(end - first.ends[tp], 0) / passed_s
        size = second.sizes.get((leaders[tp], tp), 0)
        grown = size - first.sizes.get((leaders[tp], tp), size)
        held = end - second.starts.get(tp, end)
        written = records * size / held if held > 0 else 0.0
        rates[tp] = Rate(records, max(grown / passed_s, written, 0.0))
    return rates


def sizes_of(
    connected: Connected, views: Sequence[TopicMetadata] | None = None
) -> tuple[Sizes, dict[int, str]]:
    """The sizes of all replicas, or of those of some topics, and why brokers told none."""
    topics = None
    if views is not None:
        topics = [
            DescribableLogDirTopic(topic=view.name, partitions=sorted(view.partitions))
            for view in views
        ]
    answers = ask_brokers(connected, lambda: DescribeLogDirsRequest(topics=topics))
    silent = {node: str(a) for node, a in answers.items() if isinstance(a, Exception)}
    return sizes_in(answers), silent


def sizes_in(answers: Mapping[int, Any]) -> Sizes:
    """The sizes of replicas in ``DescribeLogDirs`` answers, without copies between directories."""
    return {
        (broker, TopicPartition(topic.name, one.partition_index)): one.partition_size
        for broker, answer in answers.items()
        if not isinstance(answer, Exception)
        for directory in answer.results
        for topic in directory.topics
        for one in topic.partitions
        if not one.is_future_key
    }
