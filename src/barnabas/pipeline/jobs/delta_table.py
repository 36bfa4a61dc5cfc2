"""A Delta table that has each micro-batch once: the commit of its rows has the batch's number.

Tasks write the files; the driver names them in one commit with a transaction identifier (``txn``: the job and
the batch's number). A file that no commit names is no data. For an upsert deltalake merges the rows on the
driver, under the same identifier. A repeated batch finds its number in the log. If two drivers commit one
batch at once, they conflict in the log, and one fails.

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
from urllib.parse import quote

from barnabas.pipeline.errors import LedgerError, PipelineError
from barnabas.pipeline.jobs.batch_files import (
    Batch,
    BatchRows,
    FrameRows,
    clear_staged,
    data_files,
    sync,
)
from barnabas.pipeline.jobs.table_rules import NO_RULES, TableRules, arrow_schema, staged_rows
from barnabas.pipeline.places.place_names import as_folder, is_in_store
from barnabas.pipeline.places.stored_files import (
    for_delta,
    remove,
    rows_of_files,
    values_in,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PLANNED = "barnabas.planned"
COMMITS_MAX = 1000
"""How many commits back a repeated batch is looked for; other writers may have committed since."""


def check_installed() -> None:
    """Raises `PipelineError`."""
    if find_spec("deltalake") is None:
        raise PipelineError("a Delta table needs deltalake: pip install 'barnabas[tables]'")


class DeltaTable:
    """The table at a path that driver and executors share, or at a URI of a store."""

    keeps_parts = False
    """Whether a file has the columns by which the table is partitioned."""

    def __init__(self, path: str, rules: TableRules = NO_RULES) -> None:
        check_installed()
        self.given = path
        self.path = as_folder(path)
        self._in_store = is_in_store(path)
        self.partition_by = rules.partition_by
        self._rules = rules

    def begin(self) -> None:
        """Clean up what an earlier run of a job has left. For the start of a run."""
        if not self._in_store:
            clear_staged(self.path)

    def append(self, frame: DataFrame, batch: Batch) -> bool:
        """Write the batch, unless the table has it: then False. Raises `LedgerError` for another batch of
        this number."""
        return self.take(FrameRows(self._rules.rows_of(frame)), batch)

    def land_in(self, schema: StructType) -> str:
        """The folder below which reading tasks write files with such rows."""
        return self.path

    def take(self, rows: BatchRows, batch: Batch) -> bool:
        """As `append`, of rows that may be files already."""
        table = self._open()
        if table is not None and self._is_there(table, batch):
            return False
        if self._rules.upsert_by:
            self._upsert(table or self._create(rows), rows, batch)
            return True
        if self._in_store:
            files = rows.stored(self.path, batch, self.partition_by)
            actions = [_action(each.name, each.size, each.rows, each.parts) for each in files]
        else:
            staged = rows.staged(self.path, batch, self.partition_by)
            actions = [self._named(each, staged, batch) for each in data_files(staged)]
            sync(Path(self.path))
            shutil.rmtree(staged, ignore_errors=True)
        self._commit(table, actions, rows, batch)
        return True

    def last(self, job: str) -> int | None:
        """The last batch of `job` in the table."""
        table = self._open()
        return None if table is None else table.transaction_version(job)

    def _open(self) -> Any:
        return open_delta(self.path)

    def _create(self, rows: BatchRows) -> Any:
        import deltalake

        schema = deltalake.Schema.from_arrow(arrow_schema(rows.schema))
        partition_by = list(self.partition_by)
        return deltalake.DeltaTable.create(
            self.path,
            schema,
            mode="ignore",
            partition_by=partition_by,
            storage_options=for_delta(self.path),
        )

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
        """Move the file into the table's folder; returns the entry that names it in the log."""
        import pyarrow.parquet as pq

        values = values_in(file.relative_to(staged).parts[:-1])
        name = f"batch-{batch.number}-{uuid.uuid4().hex}.parquet"
        rows = pq.read_metadata(file).num_rows
        target = Path(self.path, name)
        os.rename(file, target)
        return _action(name, target.stat().st_size, rows, values)

    def _commit(self, table: Any, actions: list[Any], rows: BatchRows, batch: Batch) -> None:
        from deltalake import Schema
        from deltalake.transaction import create_table_with_add_actions

        properties = _properties(batch)
        schema = Schema.from_arrow(arrow_schema(rows.schema))
        partition_by = list(self.partition_by)
        if table is None:
            create_table_with_add_actions(
                self.path,
                schema,
                actions,
                mode="error",
                partition_by=partition_by,
                commit_properties=properties,
                storage_options=for_delta(self.path),
            )
            return
        self._grow(table, schema)
        table.create_write_transaction(
            actions, "append", schema, partition_by, commit_properties=properties
        )

    def _grow(self, table: Any, schema: Any) -> None:
        """Add columns that the table lacks, in a commit of their own; a repeated batch finds them there."""
        there, given = _types(table.schema()), _types(schema)
        fresh = self._rules.check_columns(self.path, there, given)
        if fresh:
            table.alter.add_columns([each for each in schema.fields if each.name in fresh])
            table.update_incremental()

    def _upsert(self, table: Any, given: BatchRows, batch: Batch) -> None:
        """Replace rows whose key the table has, and add the others, in one commit."""
        from deltalake import Schema

        if self._in_store:
            files = given.stored(self.path, batch)
            rows = rows_of_files(self.path, files)
        else:
            staged = given.staged(self.path, batch)
            rows = staged_rows(staged)
        self._rules.check_keys(rows, self.path)
        self._grow(table, Schema.from_arrow(arrow_schema(given.schema)))
        same = " and ".join(f"t.`{each}` = s.`{each}`" for each in self._rules.upsert_by)
        names = [each for each in rows.column_names if each not in self._rules.upsert_by]
        merger = table.merge(
            rows, same, source_alias="s", target_alias="t", commit_properties=_properties(batch)
        )
        columns = {f"`{each}`": f"s.`{each}`" for each in rows.column_names}
        if names:
            merger = merger.when_matched_update({f"`{each}`": f"s.`{each}`" for each in names})
        merger.when_not_matched_insert(columns).execute()
        if self._in_store:
            remove(self.path, files)
        else:
            shutil.rmtree(staged, ignore_errors=True)


def open_delta(place: str) -> Any:
    """deltalake's table, or None where there is none. Raises `PipelineError`."""
    import deltalake
    from deltalake.exceptions import DeltaError

    options = for_delta(place)
    try:
        if not deltalake.DeltaTable.is_deltatable(place, options):
            return None
        return deltalake.DeltaTable(place, storage_options=options)
    except DeltaError as error:
        raise PipelineError(f"Delta table {place} cannot be opened: {error}") from error


def _action(name: str, size: int, rows: int, values: dict[str, str | None]) -> Any:
    """The log's entry that names a file; the log has paths as parts of a URI."""
    from deltalake.transaction import AddAction

    stats = json.dumps({"numRecords": rows})
    return AddAction(quote(name), size, values, int(time.time() * 1000), True, stats)


def _properties(batch: Batch) -> Any:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={PLANNED: f"{batch.job} {batch.number} {batch.planned}"},
        app_transactions=[Transaction(batch.job, batch.number)],
    )


def _types(schema: Any) -> dict[str, str]:
    return {each.name: str(each.type) for each in schema.fields}
