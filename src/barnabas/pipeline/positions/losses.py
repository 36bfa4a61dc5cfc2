"""Records that a query should have read and never will: which, and why.

Owns the list. With ``failOnDataLoss=true`` it is the error's text, whole; else each loss is a warning and,
where the reader has ``checkpointLocation``, a file below ``<checkpoint>/barnabas/losses``, named by what was
lost, so that a batch that runs again counts it once. Driver and tasks both report.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from barnabas.pipeline.errors import DataLossError
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.places.bare_paths import check_in_task
from barnabas.pipeline.places.one_place import QUERY_ID, check_checkpoint
from barnabas.pipeline.places.stores import open_store
from barnabas.types import TopicPartition

log = logging.getLogger(__name__)

FOLDER = "losses"
LOST = "(lost)"
"""Key in the progress beside topics; no topic can have this name."""
SHOWN_MAX = 20
"""Losses that an error's text names; the count names the rest."""
UNKNOWN = -1
"""The `end` of a loss of which it is not known how far it reaches."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets ``begin <= offset < end`` of a partition are gone. `end` may be `UNKNOWN`."""

    topic: str
    partition: int
    begin: int
    end: int
    why: str

    @classmethod
    def of(cls, partition: TopicPartition, begin: int, end: int, why: str) -> Loss:
        return cls(partition.topic, partition.partition, begin, end, why)

    @property
    def offsets(self) -> int:
        return max(self.end - self.begin, 0)

    def __str__(self) -> str:
        upper = str(self.end) if self.end >= 0 else "?"
        return f"{self.topic}-{self.partition} [{self.begin}, {upper}): {self.why}"


def report(losses: Sequence[Loss], options: SourceOptions) -> None:
    """Raises `DataLossError`, or warns and keeps them."""
    if not losses:
        return
    shown = "; ".join(map(str, losses[:SHOWN_MAX]))
    if len(losses) > SHOWN_MAX:
        shown += f"; and {len(losses) - SHOWN_MAX} more"
    text = f"records may be lost: {shown}; set failOnDataLoss to false to continue without them"
    if options.fail_on_data_loss:
        raise DataLossError(text)
    for loss in losses:
        log.warning("pipeline.records_lost: %s", loss)
    if options.checkpoint is not None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None:  # a task's file is counted by the driver
            check_in_task(options.checkpoint, "checkpointLocation", context)
            check_checkpoint(options.checkpoint, context.getLocalProperty(QUERY_ID))
        store = open_store(f"{options.checkpoint}/barnabas")
        for loss in losses:
            name = f"{loss.topic}-{loss.partition}-{loss.begin}-{loss.end}.json"
            store.write(f"{FOLDER}/{name}", [json.dumps(asdict(loss)).encode()])


def kept(checkpoint: str) -> list[Loss]:
    """All losses that were kept beside a checkpoint, by topic, partition and offset."""
    store = open_store(f"{checkpoint}/barnabas")
    names = [name for name in store.names(FOLDER) if name.endswith(".json")]
    found = [Loss(**json.loads(store.read(f"{FOLDER}/{name}"))) for name in names]
    return sorted(found, key=lambda loss: (loss.topic, loss.partition, loss.begin))


def count(checkpoint: str) -> dict[str, int]:
    """How many losses there were, and offsets in them."""
    found = kept(checkpoint)
    return {"ranges": len(found), "offsets": sum(loss.offsets for loss in found)}
