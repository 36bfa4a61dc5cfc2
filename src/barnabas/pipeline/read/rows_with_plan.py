"""The driver reads a small micro-batch while it plans it, so that no task starts Python to read it.

A Python task costs Spark tens of milliseconds, however little it reads. Fetching a few records costs the
driver's planning process one or two. Spark accepts rows together with a plan from readers of its class
`_SimpleStreamReaderWrapper`: it takes them as Arrow and keeps them as a block. A task then reads the block
or, if that is lost, the ranges of the plan. A reader here is therefore of that class while it has such rows.

If the driver fails to read, the task reads: it waits longer, and raises the error if it fails too.

Source: pyspark's ``python_streaming_source_runner`` (``partitions_func``), ``PythonMicroBatchStream``,
``PythonStreamingPartitionReaderFactory``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper

from barnabas.pipeline.offsets import Range

log = logging.getLogger(__name__)

RANGES_MAX = 64
BYTES_MAX = 4 << 20
"""The most bytes of Arrow; what is larger is left to a task."""
WEIGHT_KEPT = 0.9
"""Factor on the estimated bytes per offset at each micro-batch that it keeps from being read here. The
estimate falls until reading is tried again, as records may have become smaller."""


class RowsWithPlan:
    """Mixed into a stream reader."""

    def __init__(self, offsets_max: int) -> None:
        """Micro-batches of up to `offsets_max` offsets are read here; 0 means none."""
        self._offsets_max = offsets_max
        self._bytes_each = 0.0
        self._rows: list[pa.RecordBatch] | None = None

    def _class(self) -> type:
        return type(self) if self._rows is None else _SimpleStreamReaderWrapper

    __class__: Any = property(_class)  # `isinstance` reads it

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """The rows that came with the plan. Spark asks for them once, right after the plan."""
        rows, self._rows = self._rows, None
        return iter(rows or ())

    def bring(
        self,
        tasks: Sequence[InputPartition],
        ranges: Sequence[Range],
        read: Callable[[InputPartition], Iterable[pa.RecordBatch]],
    ) -> None:
        """Read here what the plan's only task is to read, if that is at most `offsets_max` offsets and
        `BYTES_MAX` bytes."""
        self._rows = None
        offsets = sum(range_.size for range_ in ranges)
        if len(tasks) != 1 or not 0 < offsets <= self._offsets_max or len(ranges) > RANGES_MAX:
            return
        if offsets * self._bytes_each > BYTES_MAX:
            self._bytes_each *= WEIGHT_KEPT
            return
        rows, size = [], 0
        try:
            for batch in read(tasks[0]):
                rows.append(batch)
                size += batch.nbytes
                if size > BYTES_MAX:
                    self._bytes_each = size / sum(batch.num_rows for batch in rows)
                    return
        except Exception as error:  # noqa: BLE001  the task meets the same
            log.debug("pipeline.left_to_task: %s", error)
            return
        if rows:
            self._rows = rows
