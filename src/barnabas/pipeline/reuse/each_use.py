"""A batch frame that is used again reads what is there then: its tasks find its open ends.

pyspark plans a batch read once for a DataFrame, a view or a cached plan, however often it is used. So a plan
with places that move (``earliest``, ``latest``) says which partitions and about which offsets, and each task
finds where its partitions begin and end when it runs. A range that was cut into pieces grows at its last one.
The plan's last task also reads partitions that are newer than the plan.

On a cluster Spark runs a stage again whose output an executor has taken along, and tasks of Python do not
see that. They would read other rows than before, and the stage behind might lose some or have them twice. So
there the offsets of the first use stay, unless option ``batchOffsets=each-use`` asks for those of each use,
and a second use is a warning.

Source: pyspark's ``PythonDataSourceV2.getOrCreateReadInfo``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from barnabas.pipeline.cluster_client import SETTLED_MS, ClusterClient
from barnabas.pipeline.errors import ClusterUnreachableError
from barnabas.pipeline.offsets import EARLIEST, LATEST, PartitionOffsets, Range
from barnabas.pipeline.options import EACH_USE, AtOffsets, Everywhere, Place, SourceOptions
from barnabas.pipeline.patience import Patience
from barnabas.pipeline.places.bare_paths import MASTER
from barnabas.pipeline.positions.losses import UNKNOWN, Loss, report
from barnabas.pipeline.positions.offset_resolution import earliest, latest, partitions_of
from barnabas.pipeline.positions.topic_ids import topic_id_of
from barnabas.pipeline.workers.compiled_pyspark import is_local
from barnabas.types import TopicPartition, Uuid

log = logging.getLogger(__name__)

EXECUTION = "spark.sql.execution.id"
"""Spark's local property."""


@dataclass(frozen=True, slots=True)
class OpenRange(Range):
    """A range of a plan whose topic moves. Its begin is at least the log's. `is_last`: it ends where the log
    does."""

    is_last: bool = False


@dataclass(frozen=True, slots=True)
class NewerPartitions:
    """All partitions that a plan did not know of."""

    known: frozenset[TopicPartition]


_first_use: dict[str, str] = {}
"""The execution in which this process has read each plan first, by Spark's id."""


def opened(ranges: Iterable[Range], options: SourceOptions) -> list[Range]:
    """Pieces of partitions, in their order, as open ranges where options have them begin or end with the
    log."""
    found: list[Range] = []
    for _, group in groupby(ranges, key=lambda piece: piece.of):
        pieces = list(group)
        for piece in pieces:
            ends = piece is pieces[-1] and _is_at(options.ending, piece.of, LATEST)
            if ends or not _is_fixed(options.starting, piece.of):
                piece = OpenRange(
                    piece.topic, piece.partition, piece.start, piece.end, piece.topic_id, ends
                )
            found.append(piece)
    return found


def _is_at(place: Place, partition: TopicPartition, what: int) -> bool:
    if isinstance(place, AtOffsets):
        return place.offsets[partition] == what
    return place == Everywhere(what)


def _is_fixed(place: Place, partition: TopicPartition) -> bool:
    """Whether a query begins there also where retention has deleted it, and so has lost records."""
    return isinstance(place, AtOffsets) and place.offsets[partition] >= 0


def sees_newer(options: SourceOptions) -> bool:
    """Whether partitions that appear later belong to the query as its options have it."""
    begins = options.starting == Everywhere(EARLIEST) and options.ending == Everywhere(LATEST)
    return begins and not options.subscription.partitions


def settled(
    ranges: Iterable[Range], newer: NewerPartitions | None, options: SourceOptions, plan: str = ""
) -> list[Range]:
    """Ranges as they are now, of the plan with that id. Raises `DataLossError`."""
    ranges = list(ranges)
    moving = [range_ for range_ in ranges if isinstance(range_, OpenRange)]
    if not moving and newer is None:
        return ranges
    if options.batch_offsets != EACH_USE and _is_on_cluster(plan):
        return [range_ for range_ in ranges if range_.size > 0]
    cluster = options.cluster.connect()
    fresh: list[TopicPartition] = []
    if newer is not None:
        found = partitions_of(cluster, options.subscription)
        fresh = [partition for partition in found if partition not in newer.known]
    ids = {range_.topic: range_.topic_id for range_ in moving}
    of = sorted({*(range_.of for range_ in moving), *fresh})
    first, ends = _bounds_now(cluster, of, ids, options)
    now = [
        _now(range_, cluster, first, ends, options) if isinstance(range_, OpenRange) else range_
        for range_ in ranges
    ]
    now += [
        Range(*partition, first[partition], ends[partition], topic_id_of(cluster, partition.topic))
        for partition in fresh
        if partition in ends
    ]
    return [range_ for range_ in now if range_.size > 0]


def _bounds_now(
    cluster: ClusterClient,
    of: Sequence[TopicPartition],
    ids: Mapping[str, Uuid | None],
    options: SourceOptions,
) -> tuple[PartitionOffsets, PartitionOffsets]:
    """Return where the partitions begin and end, of topics that had `ids` when they were planned. Some
    brokers may not know yet of a topic that was made again a moment ago, so they are asked again before it
    counts as deleted."""
    patience = Patience(min(cluster.patience_ms, SETTLED_MS))
    while True:
        for name in sorted({partition.topic for partition in of}):
            cluster.forget(name)  # a worker lives for many queries
        first = earliest(cluster, of, options)
        ends = latest(cluster, [partition for partition in of if partition in first], options)
        gone = sorted({partition.topic for partition in of if partition not in ends})
        if all(topic_id_of(cluster, name) not in (None, ids.get(name)) for name in gone):
            return first, ends
        try:
            patience.wait("a topic is not there")
        except ClusterUnreachableError:
            return first, ends
        cluster.ask_another()


def _now(
    what: OpenRange,
    cluster: ClusterClient,
    first: Mapping[TopicPartition, int],
    ends: PartitionOffsets,
    options: SourceOptions,
) -> Range:
    if what.of not in ends:
        if _is_made_again(what, cluster, options):  # with fewer partitions
            return Range(*what.of, 0, 0)
        report([Loss.of(what.of, what.start, UNKNOWN, "the topic was deleted")], options)
        return Range(*what.of, 0, 0)
    start = what.start
    if not _is_fixed(options.starting, what.of):
        if _is_made_again(what, cluster, options):
            end = ends[what.of] if what.is_last else 0
            now = topic_id_of(cluster, what.topic)
            return Range(*what.of, first[what.of] if what.is_last else 0, end, now)
        start = max(start, first[what.of])
    end = ends[what.of] if what.is_last else what.end
    return Range(*what.of, start, end, what.topic_id)


def _is_made_again(what: OpenRange, cluster: ClusterClient, options: SourceOptions) -> bool:
    """Whether the plan's topic is another by now, which is read as it is."""
    if _is_fixed(options.starting, what.of) or not _is_at(options.ending, what.of, LATEST):
        return False
    return topic_id_of(cluster, what.topic) not in (None, what.topic_id)


def _is_on_cluster(plan: str) -> bool:
    """Whether executors may be lost. A plan that is used again there is a warning."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or is_local(context.getLocalProperty(MASTER) or "local"):
        return False
    execution = context.getLocalProperty(EXECUTION) or ""
    if _first_use.setdefault(plan, execution) != execution:
        log.warning(
            "pipeline.offsets_of_first_use: a frame of format barnabas is used again, and reads the offsets"
            " of its first use; load it again, or set batchOffsets to each-use"
        )
    return True
