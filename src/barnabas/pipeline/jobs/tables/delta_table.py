"""A Delta table that has each micro-batch once: the commit of its rows has the batch's number.

Tasks write the files; the driver names them in one commit with a transaction identifier (``txn``: the job and
the batch's number). A file that no commit names is no data. Where a table has rules for its rows
(:mod:`rules.delta_duties`), and for an upsert, deltalake writes or merges the rows on the driver, under the
same identifier. A repeated batch finds its number in the log. If two drivers commit one batch at once, they
conflict in the log, and one fails.

Needs the extra ``[tables]``. Source: Delta's protocol, "Transaction Identifiers".
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from barnabas.pipeline.errors import LedgerError, PipelineError, TableRefusedError
from barnabas.pipeline.jobs.tables.batch_files import (
    Batch,
    BatchRows,
    FrameRows,
    clear_staged,
    data_files,
    sync,
)
from barnabas.pipeline.jobs.tables.delta_duties import (
    APPEND_ONLY,
    PLAIN_PARTS,
    DeltaDuties,
    check_part,
    duties_of,
    type_text,
)
from barnabas.pipeline.jobs.tables.delta_rewrites import DeltaRewrites
from barnabas.pipeline.jobs.tables.table_rules import (
    NO_RULES,
    TableRules,
    agreed_parts,
    arrow_schema,
    check_types,
    streamed_rows,
    with_nulls,
)
from barnabas.pipeline.places.place_names import as_folder, is_in_store
from barnabas.pipeline.places.stored_files import (
    StoredFile,
    for_delta,
    remove,
    rows_of_files,
    values_in,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PLANNED = "barnabas.planned"
REFUSAL_MAX = 400
"""Characters of what deltalake says; it shows rows."""
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
        """Folders of the files that tasks write: none where deltalake writes the rows."""
        self._rules = rules
        self._rewrites = DeltaRewrites(self.path)

    def begin(self) -> None:
        """Clean up what an earlier run of a job has left. For the start of a run. Raises `TableRefusedError`
        where the table is not one that the job can write to."""
        if not self._in_store:
            clear_staged(self.path)
        table = self._open()
        if table is not None:
            self._duties_of(table)

    def append(self, frame: DataFrame, batch: Batch) -> bool:
        """Write the batch, unless the table has it: then False. Raises `LedgerError` for another batch of
        this number."""
        return self.take(FrameRows(self._rules.rows_of(frame)), batch)

    def land_in(self, schema: StructType) -> str:
        """The folder below which reading tasks write files with such rows."""
        return self.path

    def take(self, rows: BatchRows, batch: Batch) -> bool:
        """Append rows that may be files already."""
        table = self._open()
        if table is not None and self._is_there(table, batch):
            return False
        check_types(rows.schema, self.path)
        if table is None and not self._starts_with_files(rows):
            table = self._create(rows)
        duties = None if table is None else self._duties_of(table)
        if duties is None or not (duties.by_rows or self._rules.upsert_by):
            self._take_files(table, rows, batch)
            return True
        with self._read_again(rows, batch) as found, refusals(self.path):
            if self._rules.upsert_by:
                self._upsert(table, found.read_all(), rows, batch, duties)
            else:
                self._append_rows(table, found, rows, batch, duties)
        return True

    def _duties_of(self, table: Any) -> DeltaDuties:
        duties = duties_of(table, self.path)
        agreed_parts(self.path, self._rules.partition_by, duties.partition_by)
        if duties.is_append_only and self._rules.upsert_by:
            raise TableRefusedError(
                f"Delta table {self.path} has {APPEND_ONLY}: it is appended to, and not upserted"
            )
        self.partition_by = () if duties.by_rows else duties.partition_by
        if self._rules.upsert_by:
            self._rewrites.check(table)
        return duties

    def _starts_with_files(self, rows: BatchRows) -> bool:
        """Whether a table that is not there yet begins with the commit of the tasks' files."""
        types = {field.name: field.dataType.jsonValue() for field in rows.schema.fields}
        for name in self._rules.partition_by:
            check_part(self.path, name, types.get(name))
        return not self._rules.upsert_by and all(
            types.get(column) in PLAIN_PARTS for column in self._rules.partition_by
        )

    def _take_files(self, table: Any, rows: BatchRows, batch: Batch) -> None:
        if self._in_store:
            files = rows.stored(self.path, batch, self.partition_by)
            actions = [self._named_in_store(file) for file in files]
        else:
            staged = rows.staged(self.path, batch, self.partition_by)
            actions = [self._named(data_file, staged, batch) for data_file in data_files(staged)]
            sync(Path(self.path))
            shutil.rmtree(staged, ignore_errors=True)
        self._commit(table, actions, rows, batch)

    @contextmanager
    def _read_again(self, rows: BatchRows, batch: Batch) -> Iterator[Any]:
        """The rows that tasks have staged, as a reader of Arrow; what they staged is removed behind it."""
        schema = arrow_schema(rows.schema)
        if self._in_store:
            files = rows.stored(self.path, batch)
            yield rows_of_files(self.path, files, schema).to_reader()
            remove(self.path, files)
            return
        staged = rows.staged(self.path, batch)
        yield streamed_rows(staged, schema)
        shutil.rmtree(staged, ignore_errors=True)

    def _append_rows(
        self, table: Any, found: Any, rows: BatchRows, batch: Batch, duties: DeltaDuties
    ) -> None:
        """Have deltalake write the rows, as the table's rules ask for it."""
        import pyarrow as pa
        from deltalake import Schema, write_deltalake

        self._grow(table, Schema.from_arrow(arrow_schema(rows.schema)), duties.generated)
        there = pa.schema(table.schema().to_arrow())
        missing = {
            field.name: field.type
            for field in there
            if field.name not in found.schema.names and field.name not in duties.generated
        }
        write_deltalake(
            table,
            with_nulls(found, missing) if missing else found,
            mode="append",
            commit_properties=_properties(batch),
        )

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
        is_whole = False
        for commit in _standing(table.history(COMMITS_MAX)):
            is_whole = commit["version"] == 0
            job, _, number = str(commit.get(PLANNED, "")).rpartition(" ")[0].rpartition(" ")
            if job != batch.job:
                continue
            if int(number) < batch.number:
                return False  # the table was restored: its transaction identifiers stay
            if commit[PLANNED] == f"{batch.job} {batch.number} {batch.planned}":
                return True
            break
        else:
            if is_whole:
                return False
        raise LedgerError(
            f"table {self.path} has batch {last} of {batch.job}, and the job asks for batch"
            f" {batch.number}: the checkpoint was rolled back or begun again. Restore the table to a version"
            " before that batch, by its number, or give the job another name"
        )

    def _named(self, file: Path, staged: Path, batch: Batch) -> Any:
        """Move the file into the table's folder; returns the entry that names it in the log."""
        import pyarrow.parquet as pq

        values = values_in(file.relative_to(staged).parts[:-1])
        name = f"batch-{batch.number}-{uuid.uuid4().hex}.parquet"
        rows = pq.read_metadata(file).num_rows
        target = Path(self.path, name)
        os.rename(file, target)
        return self._action(name, target.stat().st_size, rows, values)

    def _named_in_store(self, file: StoredFile) -> Any:
        return self._action(file.name, file.size, file.rows, file.parts)

    def _action(self, name: str, size: int, rows: int, values: dict[str, str | None]) -> Any:
        """The log's entry that names a file; the log has paths as parts of a URI."""
        from deltalake.transaction import AddAction

        if values.keys() != set(self.partition_by):
            raise TableRefusedError(
                f"table {self.path} is partitioned by {', '.join(self.partition_by) or 'nothing'}, and tasks"
                f" have written files by {', '.join(values) or 'nothing'}: run the job again"
            )
        stats = json.dumps({"numRecords": rows})
        return AddAction(quote(name), size, values, int(time.time() * 1000), True, stats)

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

    def _grow(self, table: Any, schema: Any, generated: frozenset[str] = frozenset()) -> None:
        """Add columns that the table lacks, in a commit of their own; a repeated batch finds them there."""
        there, given = _types(table.schema()), _types(schema)
        fresh = self._rules.check_columns(self.path, there, given, generated)
        if fresh:
            with refusals(self.path):
                table.alter.add_columns([field for field in schema.fields if field.name in fresh])
            table.update_incremental()

    def _upsert(
        self, table: Any, rows: Any, given: BatchRows, batch: Batch, duties: DeltaDuties
    ) -> None:
        """Replace rows whose key the table has, and add the others, in one commit."""
        from deltalake import Schema

        self._rules.check_keys(rows, self.path)
        self._grow(table, Schema.from_arrow(arrow_schema(given.schema)), duties.generated)
        same = " and ".join(f"t.`{column}` = s.`{column}`" for column in self._rules.upsert_by)
        names = [column for column in rows.column_names if column not in self._rules.upsert_by]
        merger = table.merge(
            rows, same, source_alias="s", target_alias="t", commit_properties=_properties(batch)
        )
        columns = {f"`{column}`": f"s.`{column}`" for column in rows.column_names}
        if names:
            merger = merger.when_matched_update({f"`{name}`": f"s.`{name}`" for name in names})
        merger.when_not_matched_insert(columns).execute()


@contextmanager
def refusals(place: str) -> Iterator[None]:
    """Say what deltalake refuses, rows or a table, as one sentence; a commit of another writer is no
    refusal."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, ValueError) as error:
        text = " ".join(str(error).split())
        text = text.removeprefix("Generic DeltaTable error: ").removeprefix("External error: ")
        raise TableRefusedError(
            f"Delta table {place} refuses the batch: {text[:REFUSAL_MAX]}"
        ) from error


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


def _standing(history: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Commits, the newest first, without those that a ``RESTORE`` to an older version has undone. Ends where
    a table was restored to a time, whose version is unknown."""
    end = None
    for commit in history:
        if end is not None and commit["version"] > end:
            continue
        if commit.get("operation") == "RESTORE":
            to = commit["operationParameters"].get("version")
            if to is None:
                return
            end = int(to)
            continue
        yield commit


def _properties(batch: Batch) -> Any:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={PLANNED: f"{batch.job} {batch.number} {batch.planned}"},
        app_transactions=[Transaction(batch.job, batch.number)],
    )


def _types(schema: Any) -> dict[str, str]:
    return {
        field["name"]: type_text(field["type"]) for field in json.loads(schema.to_json())["fields"]
    }
