"""A Delta table that takes each micro-batch once: its log has the batch's number in the commit of its rows.

Tasks write the files; the driver names them in one commit with a transaction identifier (``txn``: the job and
the batch's number). A file that no commit names is no data. A repeated batch finds its number in the log. Two
drivers that commit one batch at once conflict in the log, and one of them fails.

Needs the extra ``[tables]``. Source: Delta's protocol, "Transaction Identifiers".
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from barnabas.pipeline.errors import LedgerError, PipelineError
from barnabas.pipeline.jobs.batch_files import (
    Batch,
    clear_staged,
    data_files,
    sync,
    write_staged,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NULL = "__HIVE_DEFAULT_PARTITION__"
PLANNED = "barnabas.planned"
COMMITS_MAX = 1000
"""How far back the commit of a repeated batch is looked for; another writer may have committed since."""


def check_installed() -> None:
    """Raises `PipelineError`."""
    if find_spec("deltalake") is None:
        raise PipelineError("a Delta table needs deltalake: pip install 'barnabas[tables]'")


class DeltaTable:
    """The table at a path that driver and executors share."""

    def __init__(self, path: str, partition_by: tuple[str, ...] = ()) -> None:
        check_installed()
        self.path = path
        self._partition_by = partition_by

    def begin(self) -> None:
        """Before a run's first batch."""
        clear_staged(self.path)

    def append(self, frame: DataFrame, batch: Batch) -> bool:
        """Whether the batch was written now; if not, it was there. Raises `LedgerError`."""
        table = self._open()
        if table is not None and self._is_there(table, batch):
            return False
        staged = write_staged(frame, self.path, batch, self._partition_by)
        actions = [self._named(each, staged, batch) for each in data_files(staged)]
        sync(Path(self.path))
        shutil.rmtree(staged, ignore_errors=True)
        self._commit(table, actions, frame, batch)
        return True

    def last(self, job: str) -> int | None:
        """The last batch of `job` in the table."""
        table = self._open()
        return None if table is None else table.transaction_version(job)

    def _open(self) -> Any:
        import deltalake

        if not deltalake.DeltaTable.is_deltatable(self.path):
            return None
        return deltalake.DeltaTable(self.path)

    def _is_there(self, table: Any, batch: Batch) -> bool:
        last = table.transaction_version(batch.job)
        if last is None or last < batch.number:
            return False
        for commit in table.history(COMMITS_MAX) if last == batch.number else ():
            if commit.get(PLANNED) == f"{batch.job} {batch.number} {batch.planned}":
                return True
        raise LedgerError(
            f"table {self.path} has batch {last} of {batch.job}, and the job asks for batch"
            f" {batch.number}: the checkpoint was rolled back or begun again. Restore the table to the"
            " version before, or give the job another name"
        )

    def _named(self, file: Path, staged: Path, batch: Batch) -> Any:
        """The file in the table's folder, and what its log says of it."""
        import pyarrow.parquet as pq
        from deltalake.transaction import AddAction

        values: dict[str, str | None] = {}
        for part in file.relative_to(staged).parts[:-1]:
            name, _, value = part.partition("=")
            values[unquote(name)] = None if value == NULL else unquote(value)
        name = f"batch-{batch.number}-{uuid.uuid4().hex}.parquet"
        rows = pq.read_metadata(file).num_rows
        target = Path(self.path, name)
        os.rename(file, target)
        stats = json.dumps({"numRecords": rows})
        now = int(time.time() * 1000)
        return AddAction(name, target.stat().st_size, values, now, True, stats)

    def _commit(self, table: Any, actions: list[Any], frame: DataFrame, batch: Batch) -> None:
        from deltalake import CommitProperties, Schema, Transaction
        from deltalake.transaction import create_table_with_add_actions
        from pyspark.sql.pandas.types import to_arrow_schema

        properties = CommitProperties(
            custom_metadata={PLANNED: f"{batch.job} {batch.number} {batch.planned}"},
            app_transactions=[Transaction(batch.job, batch.number)],
        )
        schema = Schema.from_arrow(to_arrow_schema(frame.schema, timezone="UTC"))
        partition_by = list(self._partition_by)
        if table is None:
            create_table_with_add_actions(
                self.path,
                schema,
                actions,
                mode="error",
                partition_by=partition_by,
                commit_properties=properties,
            )
            return
        if _names(table.schema()) != _names(schema):
            raise LedgerError(
                f"table {self.path} has columns {', '.join(_names(table.schema()))}, the batch has"
                f" {', '.join(_names(schema))}"
            )
        table.create_write_transaction(
            actions, "append", schema, partition_by, commit_properties=properties
        )


def _names(schema: Any) -> list[str]:
    return [f"{each.name} {each.type}" for each in schema.fields]
