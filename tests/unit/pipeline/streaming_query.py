"""A streaming query as Spark runs one, over the sink's own driver code and a checkpoint on disk.

Keeps what the sink can see of Spark: ``metadata`` with the query id, ``offsets/<n>`` written before a
batch runs and never again, ``commits/<n>`` behind it, a run id for each start. A row is a number; a
batch takes the next `per_trigger` of them and gives each a partition by a column, so that batches of
two runs have equal counts everywhere.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from barnabas.pipeline.options import ClusterOptions, SinkOptions
from barnabas.pipeline.write import staged_task, writers
from barnabas.pipeline.write.prepared.participants import BatchBegun
from barnabas.pipeline.write.prepared.recovery import begin_batch
from barnabas.pipeline.write.prepared.task import write_in_transaction
from tests.unit.pipeline.fake_cluster import BROKER

PARTITIONS = 3
_clock = itertools.count(1)


class Query:
    """One query. `place` is its checkpoint, `settings` are more of its sink's options."""

    def __init__(self, place: Path, *, per_trigger: int = 30, **settings: Any) -> None:
        self.checkpoint = place
        self.per_trigger = per_trigger
        self.options = SinkOptions(
            **{
                "cluster": ClusterOptions((BROKER,)),
                "topic": "t",
                "staging": f"{place}/barnabas",
                "checkpoint": str(place),
                "version": None,
                **settings,
            }
        )
        if not (place / "metadata").exists():
            for each in ("offsets", "commits"):
                (place / each).mkdir(parents=True)
            (place / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        self.id: str = json.loads((place / "metadata").read_text())["id"]

    @property
    def application(self) -> str:
        return self.options.application or self.id

    def _last(self, folder: str) -> int:
        found = (int(each.name) for each in (self.checkpoint / folder).iterdir())
        return max(found, default=-1)

    def _end_of(self, batch: int) -> int:
        if batch < 0:
            return 0
        entry = json.loads((self.checkpoint / "offsets" / str(batch)).read_text())
        return int(entry["end"])

    def batches(self, word: str, up_to: int) -> Iterator[int]:
        """One start of the query, whose rows are `word` and a number: batch by batch."""
        run = str(uuid.uuid4())
        while True:
            batch = self._last("commits") + 1
            begin = self._end_of(batch - 1)
            entry = self.checkpoint / "offsets" / str(batch)
            if not entry.exists():
                if begin >= up_to:
                    return
                end = min(begin + self.per_trigger, up_to)
                entry.write_text(json.dumps({"time": next(_clock), "end": end}))
            begun = begin_batch(self.options, streaming=True)
            task = self.attempt(begun, rows_of(word, begin, self._end_of(batch)), run, batch)
            writers.publish(self.options, [task], batch)
            (self.checkpoint / "commits" / str(batch)).touch()
            yield batch

    def attempt(
        self, begun: BatchBegun | None, rows: pa.RecordBatch, run: str, batch: int
    ) -> staged_task.StagedTask:
        """One attempt of a task."""
        if begun is None:
            task = staged_task.stage(self.options, iter([rows]))
            return replace(task, application=self.application, query=self.id, run=run)
        place = staged_task.TaskPlace.of(self.options)
        place = replace(place, application=self.application, query=self.id, run=run, batch=batch)
        return write_in_transaction(self.options, begun, iter([rows]), place)

    def start(self, word: str, up_to: int) -> None:
        """Run until `up_to` rows are through."""
        for _ in self.batches(word, up_to):
            pass


def rows_of(word: str, begin: int, end: int) -> pa.RecordBatch:
    numbers = range(begin, end)
    return pa.RecordBatch.from_pydict(
        {
            "value": [f"{word}{n}" for n in numbers],
            "partition": pa.array([n % PARTITIONS for n in numbers], pa.int32()),
        }
    )
