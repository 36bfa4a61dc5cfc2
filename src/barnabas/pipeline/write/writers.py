"""The batch and the stream writer of ``format("barnabas")``, as Spark calls them.

Owns which way a write goes, by option ``delivery``:

* ``at-least-once``: tasks send their rows themselves; a task that runs twice writes twice
  (:mod:`barnabas.pipeline.write.direct`).
* ``exactly-once``: tasks stage, the driver publishes: in a transaction
  (:mod:`barnabas.pipeline.write.transactional`) where the cluster has them and the query's ledger was not
  begun the other way, else by a manifest (:mod:`barnabas.pipeline.write.sink`).
* ``transactions``, ``manifest``: one of the two ways and no other.
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
from barnabas.pipeline.write import transactional
from barnabas.pipeline.write.direct import write_directly
from barnabas.pipeline.write.prepared.recovery import abort_batch, begin_batch
from barnabas.pipeline.write.sink import (
    StagedTask,
    discard,
    discard_unless_named,
    given,
    publish_once,
    publish_plainly,
    stage,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipeline.write.prepared.participants import BatchBegun

PLANNER = "write_into_data_source.py"
"""The file of pyspark's planner that makes the writer for a batch's tasks."""
MANIFEST, AT_LEAST_ONCE = "manifest", "at-least-once"


def begin(options: SinkOptions, *, streaming: bool) -> BatchBegun | None:
    """Begin a batch whose tasks may write in transactions, where Spark plans the tasks. A writer that is made
    to commit them begins nothing. None where tasks write in no transaction."""
    if not is_called_by(PLANNER):
        return None
    return begin_batch(options, streaming=streaming)


def write_task(
    options: SinkOptions, begun: BatchBegun | None, rows: Iterator[pa.RecordBatch]
) -> StagedTask:
    if options.delivery == AT_LEAST_ONCE:
        written = write_directly(options, rows)
    else:
        store = store_for_task(options, TaskContext.get())
        options = options_in(options, store)
        if begun is not None:
            from barnabas.pipeline.write.prepared.task import write_in_transaction

            written = write_in_transaction(options, begun, rows)
        else:
            written = stage(options, rows)
        written = replace(written, store=store)
    freeze_loaded()
    return written


def as_resolved(options: SinkOptions, tasks: Sequence[StagedTask]) -> SinkOptions:
    """The options as the tasks have resolved them."""
    return options_in(options, tasks[0].store) if tasks else options


def abort(options: SinkOptions, messages: Sequence[StagedTask | None], number: int) -> None:
    """Drop what the tasks of batch `number` have staged, and end their transactions."""
    options = as_resolved(options, given(messages))
    discard_unless_named(options, messages, number)
    begun = next((each.begun for each in given(messages) if each.begun), None)
    if begun is not None:
        abort_batch(options, begun)


def publish(options: SinkOptions, tasks: Sequence[StagedTask], number: int) -> int:
    """Publish batch `number`, if that has not been done. How many record batches were sent."""
    options = as_resolved(options, tasks)
    if options.delivery != MANIFEST:
        try:
            return transactional.publish_once(options, tasks, number)
        except transactional.NoTransactionsError:
            if options.delivery == transactional.TRANSACTIONS or tasks[0].begun is not None:
                raise
    if options.staging is None:
        raise OptionError(
            "txnAppId needs stagingLocation without transactions, where it is kept what was written"
        )
    return publish_once(options, tasks, number)


def publish_batch_write(options: SinkOptions, tasks: Sequence[StagedTask]) -> int:
    """Publish a batch write that has no name: Spark never repeats it."""
    options = as_resolved(options, tasks)
    if options.delivery != MANIFEST:
        try:
            return transactional.publish_plainly(options, tasks)
        except transactional.NoTransactionsError:
            if options.delivery == transactional.TRANSACTIONS:
                raise
    return publish_plainly(options, tasks)


class BatchWriter(SameVersion, DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write.format("barnabas")``."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.begun = begin(options, streaming=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        return write_task(self.options, self.begun, iterator)

    def commit(self, messages: list[StagedTask | None]) -> None:
        tasks = given(messages)
        if not tasks or self.options.delivery == AT_LEAST_ONCE:
            return
        if self.options.version is not None:
            publish(self.options, tasks, self.options.version)
        else:
            publish_batch_write(self.options, tasks)

    def abort(self, messages: list[StagedTask | None]) -> None:
        if self.options.version is not None:
            abort(self.options, messages, self.options.version)
        else:
            discard(as_resolved(self.options, given(messages)), messages)


class StreamWriter(SameVersion, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream.format("barnabas")``."""

    def __init__(self, options: SinkOptions) -> None:
        if options.staging is None and options.delivery != AT_LEAST_ONCE:
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
        if tasks and self.options.delivery != AT_LEAST_ONCE:
            publish(self.options, tasks, batchId)
        freeze_loaded()

    def abort(self, messages: list[StagedTask | None], batchId: int) -> None:
        abort(self.options, messages, batchId)
