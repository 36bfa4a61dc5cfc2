"""Reading: the batch and the stream reader of ``format("barnabas")``.

Owns the plan: which ranges a query or a trigger reads, cut into tasks. The tasks' own work is
:mod:`barnabas.pipeline.read.range_reader`. Readers are pickled to workers, so they hold options only; the
stream reader also keeps, in the driver's planning process, when the last trigger was and where an
``availableNow`` run ends.

Admission control: Spark asks `latestOffset(start, limit)`; `maxOffsetsPerTrigger` gives the limit,
``minOffsetsPerTrigger`` holds a trigger back until enough waits or ``maxTriggerDelay`` has passed.
Offsets that a checkpoint holds are resumed as they are, also after a change of options, and those of
Spark's own Kafka connector too. A topic that was deleted and created again is another one: what was not
read of the old one is lost, and the new one is read from its beginning.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barnabas.pipeline.cluster_client import SETTLED_MS
from barnabas.pipeline.errors import ClusterUnreachableError, OptionError
from barnabas.pipeline.formats.resolved_schema import resolved
from barnabas.pipeline.frozen import freeze_loaded
from barnabas.pipeline.offsets import (
    OffsetsJson,
    PartitionOffsets,
    Range,
    cut_ranges,
    from_json,
    limit_rows,
    pack_ranges,
    to_json,
)
from barnabas.pipeline.options import FIRST_USE, SourceOptions
from barnabas.pipeline.patience import Patience, now_ms
from barnabas.pipeline.positions.beginning import begin_of
from barnabas.pipeline.positions.losses import LOST, UNKNOWN, Loss, count, report
from barnabas.pipeline.positions.offset_resolution import (
    earliest,
    latest,
    offsets_at,
    offsets_known,
    partitions_at_start,
    partitions_of,
)
from barnabas.pipeline.positions.topic_ids import TopicIds, topic_id_of
from barnabas.pipeline.read import lag
from barnabas.pipeline.read.columns import DATA, ERROR, record_schema
from barnabas.pipeline.read.lag import BEHIND, SECONDS
from barnabas.pipeline.read.pushed_filters import UNBOUNDED, PushedFilters, pushed
from barnabas.pipeline.read.rows_with_plan import RowsWithPlan
from barnabas.pipeline.read.waiting_age import WaitingAge
from barnabas.pipeline.reuse.each_use import NewerPartitions, opened, sees_newer, settled
from barnabas.pipeline.same_version import SameVersion
from barnabas.types import TopicPartition

AGAIN = "the topic was deleted and created again"
RANGES_AHEAD = 4
"""The ranges of a task of many small ones that are asked for before the first of them is read."""


def wanted_schema(options: SourceOptions, schema: StructType) -> StructType:
    """`schema` where it can be read. Raises `OptionError` for a column that is none of a record."""
    known = {field.name: field.dataType for field in record_schema(include_headers=True).fields}
    for field in schema.fields:
        if options.values is not None and field.name in (DATA, ERROR):
            continue
        if field.name not in known:
            raise OptionError(f"a record has no column {field.name!r}: {', '.join(known)}")
        if field.dataType.simpleString() != known[field.name].simpleString():
            raise OptionError(
                f"column {field.name!r} is {known[field.name].simpleString()}, not"
                f" {field.dataType.simpleString()}"
            )
    return schema


def with_reader_schema(options: SourceOptions) -> SourceOptions:
    """The options with the schema for the whole query: tasks ask no registry for it."""
    if options.values is None or options.reader_schema is not None:
        return options
    return replace(options, reader_schema=resolved(options.values))


class RangePartition(SameVersion, InputPartition):  # type: ignore[misc]
    """One task's ranges: one, or many small ones, or none."""

    def __init__(self, what: Range | None, *more: Range) -> None:
        super().__init__(", ".join(map(str, (what, *more))))
        self.what = what
        self.more = more
        self.newer: NewerPartitions | None = None
        """Whether the task also reads partitions that the plan does not know."""

    @property
    def ranges(self) -> tuple[Range, ...]:
        return () if self.what is None else (self.what, *self.more)


def task_partitions(ranges: list[Range], options: SourceOptions) -> list[RangePartition]:
    """Ranges cut and packed to tasks."""
    return packed(pieces_of(ranges, options), options)


def pieces_of(ranges: list[Range], options: SourceOptions) -> list[Range]:
    least, most = options.partitions_min, options.rows_per_task_max
    return cut_ranges(ranges, partitions_min=least, rows_max=most)


def packed(pieces: list[Range], options: SourceOptions) -> list[RangePartition]:
    """Tasks. A number of them that is asked for is not packed."""
    if options.partitions_min is not None:
        return [RangePartition(piece) for piece in pieces]
    return [
        RangePartition(*pack) for pack in pack_ranges(pieces, rows_max=options.rows_per_task_max)
    ]


def read_range(
    options: SourceOptions,
    schema: StructType,
    partition: InputPartition,
    *,
    patience_ms: float | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a range, as both readers' tasks do. Imports the decoder here: planning needs none of it."""
    from barnabas.pipeline.read.range_reader import RangeReader

    columns = to_arrow_schema(schema, timezone="UTC")
    cluster = options.cluster.connect()
    ranges = getattr(partition, "ranges", ())
    readers = deque(RangeReader(cluster, range_, options, patience_ms) for range_ in ranges)
    begun: deque[RangeReader] = deque()
    while readers or begun:
        while readers and len(begun) < RANGES_AHEAD:
            begun.append(readers.popleft())
            begun[-1].begin()
        yield from begun.popleft().batches(columns)
    freeze_loaded()


class BatchReader(SameVersion, DataSourceReader):  # type: ignore[misc]
    """A bounded read: from the starting to the ending place. Tasks find those that move."""

    may_move = True
    """Whether tasks find the places that move, or they are fixed with the plan."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = with_reader_schema(options)
        self.schema = wanted_schema(options, schema)
        self.pushed = PushedFilters()
        self.plan = uuid.uuid4().hex

    def partitions(self) -> list[InputPartition]:
        options = self.options
        cluster = options.cluster.connect()
        partitions = partitions_at_start(cluster, options.subscription)
        start = offsets_at(cluster, options.starting, partitions, options, starting=True)
        end = offsets_at(cluster, options.ending, partitions, options, starting=False)
        since = self._since(partitions)
        offsets = self.pushed.offsets
        ranges = [
            Range(
                *partition,
                max(start[partition], offsets.least, since.get(partition, 0)),
                min(end[partition], offsets.end),
                topic_id_of(cluster, partition.topic),
            )
            for partition in partitions
            if self.pushed.takes(partition)
        ]
        # Spark takes an empty list for one partition of its own class.
        if options.batch_offsets == FIRST_USE or not self.may_move:
            return list(task_partitions(ranges, options) or [RangePartition(None)])
        empty = [range_ for range_ in ranges if range_.size == 0]
        pieces = sorted(
            [*pieces_of(ranges, options), *empty], key=lambda range_: (range_.of, range_.start)
        )
        tasks = packed(opened(pieces, options), options) or [RangePartition(None)]
        if sees_newer(options):
            tasks[-1].newer = NewerPartitions(frozenset(partitions))
        return list(tasks)

    def _since(self, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """The offsets where a filter by timestamp has each partition begin: behind its end where nothing
        is so young."""
        if self.pushed.timestamp_ms is None:
            return {}
        wanted = {
            partition: self.pushed.timestamp_ms
            for partition in partitions
            if self.pushed.takes(partition)
        }
        isolation = self.options.fetch.isolation
        found = offsets_known(self.options.cluster.connect(), wanted, isolation)
        return {partition: UNBOUNDED if at < 0 else at for partition, at in found.items()}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        ranges = settled(partition.ranges, partition.newer, self.options, self.plan)
        here = RangePartition(*ranges) if ranges else RangePartition(None)
        return read_range(self.options, self.schema, here)


class PushingBatchReader(BatchReader):
    """A batch reader that leaves out what the query's filters exclude. Spark evaluates them all the same."""

    may_move = False

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.pushed = pushed(filters)
        return filters


class StreamReader(SameVersion, RowsWithPlan, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """An unbounded read in micro-batches."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        RowsWithPlan.__init__(self, options.offsets_in_driver_max)
        self.options = with_reader_schema(options)
        self.schema = wanted_schema(options, schema)
        self._final: PartitionOffsets | None = None
        self._triggered_ms: float | None = None
        self._planned: PartitionOffsets | None = None
        """The end of the last micro-batch."""
        self._known_behind: set[TopicPartition] = set()
        """Partitions that are gone, end before where the query is, or are of another topic of that name,
        and were asked for enough."""
        self._ids = TopicIds(options.checkpoint)
        self._age = WaitingAge(options)
        self._begin: PartitionOffsets | None = None
        """The beginning of the query, in a run that plans its first batch."""

    # -- planning, in the driver -----------------------------------------------------------------

    def initialOffset(self) -> OffsetsJson:
        if self._begin is None:
            self._begin = begin_of(self.options, self._ids)
        return to_json(self._begin)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self.options.bytes_per_trigger_max)
        if self.options.rows_per_trigger_max is not None:
            return ReadMaxRows(self.options.rows_per_trigger_max)
        if self.options.rows_per_trigger_min is not None:
            return ReadMinRows(self.options.rows_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._final = self._latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Goes into the query's progress as it is: offsets, and how far the query is behind them."""
        end = self._latest()
        found: dict[str, Any] = dict(to_json(end))
        if self._planned is not None:
            found[BEHIND] = lag.behind(self._planned, end)
            age_s = self._age.seconds(self._planned, end, time.time() * 1000)
            if age_s is not None:
                found[BEHIND][SECONDS] = age_s
        if self.options.checkpoint is not None and not self.options.fail_on_data_loss:
            found[LOST] = count(self.options.checkpoint)
        return found

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> OffsetsJson:
        at = begin = from_json(start)
        if self._final is not None and self._suspect(begin, self._final) <= self._known_behind:
            end = dict(self._final)
        else:
            end = self._latest_known(begin)
        again = {partition for partition in self._created_again(begin) if partition in end}
        self._check_not_behind(begin, end, again)
        again = {partition for partition in again if begin[partition] > 0}
        begin = begin | dict.fromkeys(again, 0)
        for partition in begin:
            # A deleted partition keeps its offset. A log that ends before it was recreated, or lost
            # its end: records appended from now on are read, as Spark's own connector does.
            end.setdefault(partition, begin[partition])
        fresh = sorted(end.keys() - begin.keys())
        if fresh:
            first = earliest(self.options.cluster.connect(), fresh, self.options)
            begin = begin | {partition: first.get(partition, end[partition]) for partition in fresh}
        if self._holds_back(begin, end, limit):
            self._planned = at
            return to_json(at)
        end = self._limited(begin, end, limit)
        for partition in again:
            if end[partition] == at[partition]:  # Spark would see no batch there
                end[partition] -= 1
        self._ids.take(self.options.cluster.connect(), at, end, again)
        if end != at:
            self._triggered_ms = now_ms()
        self._planned = end
        return to_json(end)

    def _limited(
        self, begin: PartitionOffsets, end: PartitionOffsets, limit: ReadLimit
    ) -> PartitionOffsets:
        """Ends as the limit allows them: Spark asks for one, options may have two."""
        if isinstance(limit, ReadMaxBytes):
            end = limit_rows(begin, end, limit.max_bytes, self._sizes(begin, end))
            if self.options.rows_per_trigger_max is not None:
                end = limit_rows(begin, end, self.options.rows_per_trigger_max)
        if isinstance(limit, ReadMaxRows):
            end = limit_rows(begin, end, limit.max_rows)
        return end

    def _sizes(self, begin: PartitionOffsets, end: PartitionOffsets) -> PartitionOffsets:
        """The mean size of an offset in the log, by partition, by a sample from where the query is."""
        from barnabas.pipeline.read.range_reader import mean_sizes

        cluster = self.options.cluster.connect()
        waiting = [partition for partition in sorted(end) if begin[partition] < end[partition]]
        first = earliest(cluster, waiting, self.options) if waiting else {}
        ranges = [
            Range(*partition, max(begin[partition], first.get(partition, 0)), end[partition])
            for partition in waiting
        ]
        return mean_sizes(cluster, ranges, self.options)

    def _holds_back(self, begin: PartitionOffsets, end: PartitionOffsets, limit: ReadLimit) -> bool:
        """Whether less than ``minOffsetsPerTrigger`` waits and there is time yet."""
        rows_min = self.options.rows_per_trigger_min
        if rows_min is None or self._final is not None or isinstance(limit, ReadAllAvailable):
            return False
        if self._triggered_ms is None:
            self._triggered_ms = now_ms()
        waited_ms = now_ms() - self._triggered_ms
        waiting = sum(max(end[partition] - begin[partition], 0) for partition in end)
        return waiting < rows_min and waited_ms < self.options.trigger_delay_ms_max

    def _latest(self) -> PartitionOffsets:
        cluster = self.options.cluster.connect()
        return latest(cluster, partitions_of(cluster, self.options.subscription), self.options)

    def _latest_known(self, begin: PartitionOffsets) -> PartitionOffsets:
        """The latest offsets, as `_latest`. A sign that records are gone is asked for again, and of other
        brokers."""
        cluster = self.options.cluster.connect()
        patience = Patience(min(cluster.patience_ms, SETTLED_MS))
        while True:
            end = self._latest()
            gone = self._suspect(begin, end)
            self._known_behind &= gone
            if gone <= self._known_behind:
                break
            try:
                patience.wait("a log ends before where the query is")
            except ClusterUnreachableError:
                break
            cluster.ask_another()
        self._known_behind = gone
        if self._final is not None:
            self._final = dict(end)
        return end

    def _suspect(self, begin: PartitionOffsets, end: PartitionOffsets) -> set[TopicPartition]:
        return behind(begin, end) | self._created_again(begin)

    def _created_again(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        return self._ids.created_again(self.options.cluster.connect(), partitions)

    def _check_not_behind(
        self, begin: PartitionOffsets, end: PartitionOffsets, again: Collection[TopicPartition]
    ) -> None:
        """A log that ends before where the query is has lost what the query had read or planned, and a
        topic of another id has nothing of it."""
        lost = []
        for partition in sorted(begin):
            if partition in again:
                why = AGAIN
            elif partition not in end:
                why = self._why_gone(partition)
            elif end[partition] < begin[partition]:
                why = f"the log ends at {end[partition]}"
            else:
                continue
            lost.append(Loss.of(partition, begin[partition], UNKNOWN, why))
        report(lost, self.options)

    def _why_gone(self, partition: TopicPartition) -> str:
        """Why a partition that the query has been reading is not in its subscription any more."""
        known = self.options.cluster.connect().topics([partition.topic]).get(partition.topic)
        if known is not None and partition.partition in known.partitions:
            return "the topic is there, and the query does not subscribe to it any more"
        return "the topic was deleted"

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begins, ends = from_json(start), from_json(end)
        cluster = self.options.cluster.connect()
        fresh = sorted(ends.keys() - begins.keys())
        if fresh:
            begins |= self._begin_of_new(fresh, ends)
        # A first batch that is repeated without a kept beginning may meet partitions that are newer than it:
        # the next batch reads them.
        deleted = [] if begins == self._begin else sorted(begins.keys() - ends.keys())
        lost = [
            Loss.of(partition, begins[partition], UNKNOWN, self._why_gone(partition))
            for partition in deleted
        ]
        again = [
            partition
            for partition in sorted(ends)
            if self._ids.begins_again(partition, begins[partition], ends[partition])
        ]
        if again:
            first = earliest(cluster, again, self.options)
            begins |= {
                partition: min(first.get(partition, 0), ends[partition]) for partition in again
            }
        gone = self._created_again(ends)
        lost += [
            Loss.of(partition, begins[partition], ends[partition], AGAIN)
            for partition in sorted(gone)
            if begins[partition] < ends[partition]
        ]
        report(lost, self.options)
        ranges = [
            Range(
                *partition,
                begins[partition],
                ends[partition],
                topic_id_of(cluster, partition.topic),
            )
            for partition in sorted(ends)
            if begins[partition] < ends[partition] and partition not in gone
        ]
        tasks = task_partitions(ranges, self.options)
        self.bring(tasks, ranges, self._read_in_driver)
        freeze_loaded()
        return list(tasks)

    def _read_in_driver(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self.options, self.schema, partition, patience_ms=SETTLED_MS)

    def _begin_of_new(
        self, fresh: list[TopicPartition], ends: PartitionOffsets
    ) -> PartitionOffsets:
        """Partitions that came into being since the last trigger are read from their beginning."""
        first = earliest(self.options.cluster.connect(), fresh, self.options)
        lost = [
            Loss.of(
                partition, 0, first[partition], "the log of a new partition does not begin at 0"
            )
            for partition in fresh
            if first.get(partition, 0) > 0
        ]
        report(lost, self.options)
        return {partition: min(first.get(partition, 0), ends[partition]) for partition in fresh}

    # -- reading, in the executors ---------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self.options, self.schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's checkpoint alone knows how far the query is; the group is for those who look."""
        group = lag.group_of(self.options)
        if group is not None:
            lag.commit_offsets(self.options.cluster.connect(), group, from_json(end))

    def stop(self) -> None:
        self.options.cluster.connect().close()


def behind(begin: PartitionOffsets, end: PartitionOffsets) -> set[TopicPartition]:
    """Partitions that are not in `end`, or end before where the query is."""
    return {partition for partition, offset in begin.items() if end.get(partition, -1) < offset}
