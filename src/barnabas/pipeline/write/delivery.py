"""The delivery of a batch: the way in which the rows of a batch become records of topics.

Each kind is a class: :class:`barnabas.pipeline.write.direct.AtLeastOnce`,
:class:`barnabas.pipeline.write.by_driver.ByDriver` (exactly once, in a transaction of the driver),
:class:`barnabas.pipeline.write.prepared.by_tasks.ByTasks` (exactly once, in transactions of tasks), and
:class:`barnabas.pipeline.write.by_manifest.ByManifest` (exactly once, deprecated).
:mod:`barnabas.pipeline.write.choice` says which one a write has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.pipeline.options import SinkOptions
from barnabas.pipeline.write.staged_task import StagedTask, discard, discard_unless_named

if TYPE_CHECKING:
    import pyarrow as pa


class BatchDelivery(ABC):
    """One write's way. A task writes; the driver commits or aborts the batch."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options.topic or 'topics'})"

    @abstractmethod
    def write(self, rows: Iterator[pa.RecordBatch]) -> StagedTask:
        """Write a task's rows, in the task; the message is for the driver."""

    @abstractmethod
    def commit(self, tasks: Sequence[StagedTask], number: int | None) -> int:
        """Have batch `number` count, unless it does already. It is None for a batch write without a name,
        which Spark never repeats. Returns how many record batches this call has sent."""

    def abort(self, messages: Sequence[StagedTask | None], number: int | None) -> None:
        """Drop what tasks have staged for batch `number`."""
        if number is None:
            discard(self.options, messages)
        else:
            discard_unless_named(self.options, messages, number)
