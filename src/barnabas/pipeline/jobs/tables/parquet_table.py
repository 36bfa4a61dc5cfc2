"""A folder of Parquet files that has each micro-batch once, as a whole or not at all.

Batch n of a job is the folder ``batch=<job>-<n>``. Its files are written in a hidden folder, which is renamed
when they are all on disk. A rename is one step of the file system: a reader that lists the table finds the
whole batch or nothing of it. A batch that Spark repeats finds its folder and changes nothing. The folder has
the digest of the plan. A batch of the same number with another plan is a `LedgerError`.

A reader that lists the table while it grows may or may not find the newest batches. In a table format with a
log (:mod:`delta_table`) a reader has one version.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipeline.errors import LedgerError, OptionError, TableRefusedError
from barnabas.pipeline.jobs.tables.batch_files import (
    STAGED,
    Batch,
    BatchRows,
    FrameRows,
    clear_staged,
    sync,
)
from barnabas.pipeline.jobs.tables.table_rules import agreed_parts
from barnabas.pipeline.places.place_names import NO_RENAME, as_folder, is_in_store
from barnabas.pipeline.places.stored_files import values_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

COLUMN = "batch"
"""The column that readers derive from the folders' names; the rows do not have it."""
MARK = "_batch.json"
COMPACTION = "_compaction.json"
"""The plan of a compaction that is under way, or whose process was killed."""


class ParquetTable:
    """The table at a path that driver and executors share."""

    keeps_parts = False
    """Whether a file has the columns by which the table is partitioned."""

    def __init__(self, path: str, partition_by: tuple[str, ...] = ()) -> None:
        """`path` may be a ``file:`` URI. Raises `OptionError` for a store."""
        if is_in_store(path):
            raise OptionError(f"Parquet table {path}: {NO_RENAME}")
        self.given = path
        self.path = as_folder(path)
        self.partition_by = partition_by

    def begin(self) -> None:
        """Finish a compaction and clean up what an earlier run of a job has left. For the start of a run.
        Raises `TableRefusedError` where the table has other partitions than the job says."""
        finish_compaction(Path(self.path))
        clear_staged(self.path)
        parts = self._parts()
        if parts is not None:
            self.partition_by = agreed_parts(self.path, self.partition_by, parts)

    def append(self, frame: DataFrame, batch: Batch) -> bool:
        """Write the batch, unless the table has it: then False. Raises `LedgerError` for another batch of
        this number."""
        return self.take(FrameRows(frame), batch)

    def land_in(self, schema: StructType) -> str:
        """The folder below which reading tasks write files with such rows."""
        return self.path

    def take(self, rows: BatchRows, batch: Batch) -> bool:
        """Append rows that may be files already."""
        if COLUMN in (name.lower() for name in rows.schema.names):
            raise LedgerError(
                f"table {self.path} names its folders by a column {COLUMN!r}: the rows cannot have one"
            )
        folder = Path(self.path, f"{COLUMN}={batch.job}-{batch.number}")
        if self._is_there(folder, batch):
            return False
        parts = self._parts()
        if parts is not None and set(parts) != set(self.partition_by):
            # Readers would have nulls for a column that is in the names of some folders only.
            raise TableRefusedError(
                f"table {self.path} has folders by {', '.join(parts) or 'nothing'}, the job writes them by"
                f" {', '.join(self.partition_by) or 'nothing'}: the table's partitioning counts"
            )
        staged = rows.staged(self.path, batch, self.partition_by)
        mark = staged / MARK
        mark.write_text(json.dumps({"version": 1, "planned": batch.planned}))
        sync(mark)
        for path in (staged, *(path for path in staged.rglob("*") if path.is_dir())):
            sync(path)
        try:
            os.rename(staged, folder)
        except OSError:
            # Another driver of the job was faster: a folder with files is never renamed over.
            if not self._is_there(folder, batch):
                raise
            shutil.rmtree(staged, ignore_errors=True)
            return False
        sync(folder.parent)
        return True

    def _parts(self) -> tuple[str, ...] | None:
        """Partition columns of the batches that are there."""
        for folder in Path(self.path).glob(f"{COLUMN}=*"):
            file = next(folder.rglob("*.parquet"), None)
            if file is not None:
                return tuple(values_in(file.relative_to(folder).parts[:-1]))
        return None

    def _is_there(self, folder: Path, batch: Batch) -> bool:
        try:
            planned = json.loads((folder / MARK).read_text())["planned"]
        except FileNotFoundError:
            if folder.exists():
                raise LedgerError(f"{folder} has no {MARK}: this table did not write it") from None
            if any(batch.number <= last for _, last, _ in self.compacted(batch.job)):
                planned = None
            else:
                return False
        if planned != batch.planned:
            raise LedgerError(
                f"batch {batch.number} of {batch.job} in table {self.path} is another one: the checkpoint"
                " was rolled back or begun again. Move the table's folders of the batches that are to be"
                " written again away, or give the job another name"
            )
        return True

    def compacted(self, job: str) -> list[tuple[int, int, Path]]:
        """First and last batch of each folder that a compaction made."""
        pattern = re.compile(re.escape(f"{COLUMN}={job}-") + r"(\d+)_(\d+)")
        named = [(pattern.fullmatch(folder.name), folder) for folder in Path(self.path).glob("*")]
        return sorted((int(found[1]), int(found[2]), folder) for found, folder in named if found)

    def batches(self, job: str) -> list[int]:
        """Numbers of the batches of `job` that are there."""
        start = f"{COLUMN}={job}-"
        found = [folder.name.removeprefix(start) for folder in Path(self.path).glob(f"{start}*")]
        return sorted(int(number) for number in found if number.isdigit())


def finish_compaction(table: Path) -> None:
    """Do the remaining steps of a compaction's plan: put the merged folder in the place of the old ones."""
    plan = table / COMPACTION
    if not plan.is_file():
        return
    steps = json.loads(plan.read_text())
    merged, target = table / STAGED / steps["merged"], table / steps["name"]
    if merged.is_dir():
        # The merged folder may have the name of one that it replaces.
        trash = table / STAGED / f"{steps['merged']}.old"
        trash.mkdir(exist_ok=True)
        for name in steps["old"]:
            if (table / name).is_dir():
                os.rename(table / name, trash / name)
        os.rename(merged, target)
        sync(table)
        shutil.rmtree(trash, ignore_errors=True)
    plan.unlink()
