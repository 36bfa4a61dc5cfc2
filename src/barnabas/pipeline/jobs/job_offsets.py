"""How far a job is and what it would read next: from its checkpoint and the cluster, without Spark.

Owns the reading of a checkpoint's offsets (``offsets/<n>`` planned, ``commits/<n>`` done). The first line of
an entry is its version, the second its metadata; a line for the offsets of each source follows.

Source: Spark's ``OffsetSeqLog``, ``CommitLog`` and ``StreamMetadata``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from barnabas.pipeline.errors import DataLossError
from barnabas.pipeline.jobs.job_file import Source
from barnabas.pipeline.offsets import PartitionOffsets, Range
from barnabas.pipeline.options import source_options
from barnabas.pipeline.places.stores import open_store
from barnabas.pipeline.positions.beginning import begin_of, keep_begin, kept_begin
from barnabas.pipeline.positions.offset_resolution import (
    earliest,
    latest,
    offsets_at,
    partitions_at_start,
    partitions_of,
)
from barnabas.pipeline.positions.topic_ids import TopicIds
from barnabas.pipeline.read.lag import offsets_in_progress

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class CheckpointPosition:
    """The position of a checkpoint. `planned` is ahead of `done` while a batch runs, and after a failure."""

    query: str = ""
    planned: int = NO_BATCH
    done: int = NO_BATCH
    planned_offsets: PartitionOffsets | None = None
    done_offsets: PartitionOffsets | None = None


def position_of(checkpoint: str) -> CheckpointPosition:
    """The position in the checkpoint; nothing where there is none."""
    store = open_store(checkpoint)
    try:
        query = str(json.loads(store.read("metadata"))["id"])
    except FileNotFoundError:
        return CheckpointPosition()
    planned = max(_numbers(store, "offsets"), default=NO_BATCH)
    done = max(_numbers(store, "commits"), default=NO_BATCH)
    return CheckpointPosition(query, planned, done, _offsets(store, planned), _offsets(store, done))


def _numbers(store: Any, folder: str) -> list[int]:
    try:
        return [int(name) for name in store.names(folder) if name.isdigit()]
    except FileNotFoundError:
        return []


def _offsets(store: Any, batch: int) -> PartitionOffsets | None:
    if batch == NO_BATCH:
        return None
    try:
        lines = store.read(f"offsets/{batch}").decode().splitlines()
    except FileNotFoundError:
        return None
    if len(lines) <= 2:
        return None
    found: PartitionOffsets = {}
    for line in lines[2:]:
        for at, offset in offsets_in_progress(line).items():
            found[at] = min(offset, found.get(at, offset))  # a join of a topic with itself
    return found


def offsets_of(checkpoint: str, batch: int) -> PartitionOffsets:
    """The offsets where the batch ends, by what was planned as it."""
    return _offsets(open_store(checkpoint), batch) or {}


def ranges_of(begin: PartitionOffsets | None, end: PartitionOffsets | None) -> list[Range]:
    """The ranges between two positions; a partition that the first lacks is new and left out."""
    begin, end = begin or {}, end or {}
    return [
        Range(*partition, begin[partition], end[partition])
        for partition in sorted(end)
        if partition in begin
    ]


def next_ranges(source: Source, checkpoint: str) -> list[Range]:
    """The ranges that a query of the checkpoint that begins now would read of topics, up to their present
    ends. Raises `PipelineError`."""
    options = source_options(source.options, streaming=True)
    cluster = options.cluster.connect()
    partitions = partitions_at_start(cluster, options.subscription)
    begin = position_of(checkpoint).done_offsets
    if begin is None:
        begin = kept_begin(replace(options, checkpoint=checkpoint))
    if begin is None:
        begin = offsets_at(cluster, options.starting, partitions, options, starting=True)
    first, ends = earliest(cluster, partitions, options), latest(cluster, partitions, options)
    for partition in partitions:
        at = begin.get(partition, first[partition])
        if at < first[partition] and options.fail_on_data_loss:
            raise DataLossError(
                f"{partition}: records from {at} to {first[partition]} are gone, and the job continues at"
                f" {at}; option failOnDataLoss=false continues behind them"
            )
    return [
        Range(*partition, max(begin.get(partition, 0), first[partition]), ends[partition])
        for partition in partitions
    ]


def fix_beginnings(options: Mapping[str, str], checkpoints: Sequence[str]) -> None:
    """Write down one beginning for all queries of a job that read the same topics, before any of them starts.
    A record that comes while they start would else be before the beginning of one and behind the end of
    another. A query that is new beside one that runs already (dead letters that a job gets later) begins
    where that one continues. `options` are those of the reader. Raises `PipelineError`."""
    given = source_options(options, streaming=True)
    done = {checkpoint: position_of(checkpoint).done_offsets for checkpoint in checkpoints}
    found = next((offsets for offsets in done.values() if offsets is not None), None)
    if found is None:
        begin = begin_of(replace(given, checkpoint=checkpoints[0]), TopicIds(checkpoints[0]))
    else:  # of all topics of that query
        mine = partitions_of(given.cluster.connect(), given.subscription)
        begin = {partition: found[partition] for partition in mine if partition in found}
    for place in checkpoints:
        reader = replace(given, checkpoint=place)
        if done[place] is None and kept_begin(reader) is None:
            keep_begin(reader, begin, TopicIds(place))


def bytes_of(source: Source, ranges: list[Range]) -> list[int]:
    """About how many bytes of the log each range has, by a sample. Raises `PipelineError`."""
    from barnabas.pipeline.read.range_reader import mean_sizes

    options = source_options(source.options, streaming=True)
    each_offset = mean_sizes(options.cluster.connect(), ranges, options)
    return [range_.size * each_offset.get(range_.of, 0) for range_ in ranges]


def digest_of(checkpoint: str, batch: int) -> str:
    """The digest of the entry that planned the batch. A batch that is repeated has the same; one of the
    same number in a checkpoint that was rolled back or begun again has another."""
    try:
        return hashlib.sha256(open_store(checkpoint).read(f"offsets/{batch}")).hexdigest()[:32]
    except FileNotFoundError:
        return ""
