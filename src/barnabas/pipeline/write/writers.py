"""The batch and the stream writer of ``format("barnabas")``, as Spark calls them.

Spark makes a writer for the tasks of a batch and another one for its commit. Module
:mod:`barnabas.pipeline.write.choice` says how rows are delivered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.frozen import freeze_loaded
from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.places.bare_paths import options_in, store_for_task
from barnabas.pipeline.read.pushed_filters import is_called_by
from barnabas.pipeline.same_version import SameVersion
from barnabas.pipeline.write import choice
from barnabas.pipeline.write.prepared.recovery import begin_batch
from barnabas.pipeline.write.staged_task import StagedTask, given

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipeline.write.prepared.participants import BatchBegun

PLANNER = "write_into_data_source.py"
"""The file of pyspark's planner that makes the writer for a batch's tasks."""


def begin(options: SinkOptions, *, streaming: bool) -> BatchBegun | None:
    """Begin a batch whose tasks may write in transactions, where Spark plans the tasks. A writer that is made
    to commit them begins nothing. None where tasks write in no transaction."""
    if not is_called_by(PLANNER):
        return None
    return begin_batch(options, streaming=streaming)


def write_task(
    options: SinkOptions, begun: BatchBegun | None, rows: Iterator[pa.RecordBatch]
) -> StagedTask:
    is_staged = options.delivery != choice.AT_LEAST_ONCE
    store = store_for_task(options, TaskContext.get()) if is_staged else ""
    written = choice.by_options(options_in(options, store), begun).write(rows)
    freeze_loaded()
    return replace(written, store=store)


def publish(options: SinkOptions, tasks: Sequence[StagedTask], number: int | None) -> int:
    """Publish batch `number`, if that has not been done, or a write without a name. How many record batches
    were sent."""
    return choice.to_commit(options, tasks, number).commit(tasks, number)


def abort(options: SinkOptions, messages: Sequence[StagedTask | None], number: int | None) -> None:
    """Drop what the tasks of batch `number` have staged, and end their transactions."""
    choice.by_tasks(options, given(messages)).abort(messages, number)


class BatchWriter(SameVersion, DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write.format("barnabas")``."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.begun = begin(options, streaming=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        return write_task(self.options, self.begun, iterator)

    def commit(self, messages: list[StagedTask | None]) -> None:
        tasks = given(messages)
        if tasks:
            publish(self.options, tasks, self.options.version)

    def abort(self, messages: list[StagedTask | None]) -> None:
        abort(self.options, messages, self.options.version)


class StreamWriter(SameVersion, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream.format("barnabas")``."""

    def __init__(self, options: SinkOptions) -> None:
        if options.staging is None and options.delivery != choice.AT_LEAST_ONCE:
            raise OptionError(
                "a stream needs checkpointLocation (or stagingLocation) as an option of"
                " writeStream: what was written is kept beside it"
            )
        self.options = replace(options, version=None)  # a stream counts its batches itself
        self.begun = begin(self.options, streaming=True)
        freeze_loaded()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        return write_task(self.options, self.begun, iterator)

    def commit(self, messages: list[StagedTask | None], batchId: int) -> None:
        tasks = given(messages)
        if tasks:
            publish(self.options, tasks, batchId)
        freeze_loaded()

    def abort(self, messages: list[StagedTask | None], batchId: int) -> None:
        abort(self.options, messages, batchId)
