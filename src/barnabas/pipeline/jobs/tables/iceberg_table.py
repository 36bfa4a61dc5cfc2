"""An Iceberg table that has each micro-batch once: the commit of its rows has the batch's number.

Tasks write the files where the table has its data; the driver adds them in one commit, which also sets the
table's property ``barnabas.job.<job>`` to the batch's number and digest, and puts both into the snapshot's
summary. A repeated batch finds its number in the property, which remains when snapshots expire. If two
drivers commit at once, the catalog accepts one; the other reads the table again.

Files are added by name mapping, as they have no field ids. Where a table has rules for its rows
(:mod:`rules.iceberg_duties`) pyiceberg writes them on the driver. For an upsert the driver reads the rows and
looks for their keys in the table: this suits small batches.

Needs the extra ``[tables]``. Source: Iceberg's table spec, "Snapshots", "Name Mapping"; pyiceberg's
``add_files``.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import LedgerError, PipelineError
from barnabas.pipeline.jobs.tables.batch_files import (
    Batch,
    BatchRows,
    FrameRows,
    clear_staged,
    data_files,
    sync,
)
from barnabas.pipeline.jobs.tables.iceberg_duties import IcebergDuties, duties_of, fitted, parts_of
from barnabas.pipeline.jobs.tables.iceberg_rewrites import IcebergRewrites
from barnabas.pipeline.jobs.tables.table_rules import (
    NO_RULES,
    TableRules,
    agreed_parts,
    arrow_schema,
    check_types,
    streamed_rows,
)
from barnabas.pipeline.places import s3_settings
from barnabas.pipeline.places.place_names import as_folder, is_in_store
from barnabas.pipeline.places.stored_files import remove, rows_of_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PROPERTY = "barnabas.job."
JOB, BATCH, PLANNED = "barnabas.job", "barnabas.batch", "barnabas.planned"
"""In the summary of a snapshot."""
PICKED = "source-snapshot-id"
"""In the summary of a snapshot that another one was made of."""
ATTEMPTS_MAX = 5
RETRIES = "commit.retry.num-retries"


def check_installed() -> None:
    """Raises `PipelineError`."""
    if find_spec("pyiceberg") is None:
        raise PipelineError("an Iceberg table needs pyiceberg: pip install 'barnabas[tables]'")


def open_catalog(properties: Mapping[str, str]) -> Any:
    """Open a catalog of any kind that pyiceberg knows, by its properties. Raises `PipelineError`."""
    check_installed()
    from pyiceberg.catalog import load_catalog

    given = dict(properties)
    name = given.pop("name", "default")
    try:
        return load_catalog(name, **{**s3_settings.settings_here().for_iceberg(), **given})
    except Exception as error:  # clients of catalogs raise errors of any type
        raise PipelineError(f"the Iceberg catalog {name} cannot be opened: {error}") from error


class IcebergTable:
    """The table `name` (``namespace.table``) of the catalog with these properties."""

    keeps_parts = True
    """Whether a file has the columns by which the table is partitioned."""

    def __init__(
        self, name: str, properties: Mapping[str, str], rules: TableRules = NO_RULES
    ) -> None:
        self.name = name
        self._catalog = open_catalog(properties)
        self.partition_by = rules.partition_by
        self._rules = rules
        self._rewrites = IcebergRewrites(name)

    def begin(self) -> None:
        """Clean up what an earlier run of a job has left. For the start of a run. Raises `TableRefusedError`
        where the table is not one that the job can write to."""
        table = self._open()
        if table is None:
            return
        if not is_in_store(table.location()):
            clear_staged(folder_of(table))
        self._duties_of(table)

    def append(self, frame: DataFrame, batch: Batch) -> bool:
        """Write the batch, unless the table has it: then False. Raises `LedgerError` for another batch of
        this number."""
        return self.take(FrameRows(self._rules.rows_of(frame)), batch)

    def land_in(self, schema: StructType) -> str:
        """The folder below which reading tasks write files with such rows. A missing table is created
        first, because the catalog chooses the folder."""
        table = self._open() or self._create(schema)
        self._duties_of(table)
        return folder_of(table)

    @property
    def given(self) -> str:
        """The place of the table, now or later; empty where only the catalog's server knows."""
        table = self._open()
        found = self._catalog.properties.get("warehouse") if table is None else table.location()
        return found or ""

    def take(self, rows: BatchRows, batch: Batch) -> bool:
        """Append rows that may be files already."""
        check_types(rows.schema, self.name)
        table = self._open() or self._create(rows.schema)
        if self._is_there(table, batch):
            return False
        duties = self._duties_of(table)
        if duties.by_rows or self._rules.upsert_by:
            put = self._upsert if self._rules.upsert_by else self._append
            with self._read_again(table, rows, batch) as read:
                return self._commit(table, rows, batch, lambda change: put(change, read()))
        place = folder_of(table)
        if is_in_store(place):
            stored = rows.stored(place, batch, self.partition_by, keeps=True)
            names = [f"{place}/{file.name}" for file in stored]
            return self._commit(table, rows, batch, lambda change: self._add(change, names))
        staged = rows.staged(place, batch, self.partition_by, keeps=True)
        files = [self._moved(data_file, Path(place), batch) for data_file in data_files(staged)]
        written = self._commit(table, rows, batch, lambda change: self._add(change, files))
        shutil.rmtree(staged, ignore_errors=True)
        return written

    def _duties_of(self, table: Any) -> IcebergDuties:
        duties = duties_of(table, self.name)
        agreed_parts(self.name, self._rules.partition_by, parts_of(table))
        self.partition_by = duties.partition_by
        if self._rules.upsert_by:
            self._rewrites.check(table)
        return duties

    @contextmanager
    def _read_again(self, table: Any, rows: BatchRows, batch: Batch) -> Iterator[Callable[[], Any]]:
        """Opens a reader of the rows that tasks have staged, each time; what they staged is removed behind
        it."""
        place, schema = folder_of(table), arrow_schema(rows.schema)
        if is_in_store(place):
            files = rows.stored(place, batch)
            found = rows_of_files(place, files, schema)
            yield found.to_reader
            remove(place, files)
            return
        staged = rows.staged(place, batch)
        yield lambda: streamed_rows(staged, schema)
        shutil.rmtree(staged, ignore_errors=True)

    def last(self, job: str) -> int | None:
        """The last batch of `job` in the table."""
        table = self._open()
        found = None if table is None else table.properties.get(PROPERTY + job)
        return None if found is None else int(found.split()[0])

    def _open(self) -> Any:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(self.name)
        except NoSuchTableError:
            return None

    def _create(self, schema: StructType) -> Any:
        from pyiceberg.exceptions import TableAlreadyExistsError

        namespace = self.name.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        try:
            with self._catalog.create_table_transaction(self.name, arrow_schema(schema)) as change:
                if self.partition_by:
                    with change.update_spec() as spec:
                        for column in self.partition_by:
                            spec.add_identity(column)
        except TableAlreadyExistsError:
            pass  # another driver was faster
        return self._open()

    def _is_there(self, table: Any, batch: Batch) -> bool:
        found = standing_batch(table, batch.job)
        if found is None:
            return False
        number, _, planned = found.partition(" ")
        if int(number) < batch.number:
            return False
        if int(number) == batch.number and planned == batch.planned:
            return True
        raise LedgerError(
            f"table {self.name} has batch {number} of {batch.job}, and the job asks for batch"
            f" {batch.number}: the checkpoint was rolled back or begun again. Roll the table back to the"
            " snapshot before that batch, or give the job another name"
        )

    def _moved(self, file: Path, folder: Path, batch: Batch) -> str:
        target = folder / "data" / f"batch-{batch.number}-{uuid.uuid4().hex}.parquet"
        target.parent.mkdir(exist_ok=True)
        os.rename(file, target)
        sync(target.parent)
        return f"file://{target}"

    def _commit(self, table: Any, rows: BatchRows, batch: Batch, put: Any) -> bool:
        from pyiceberg.exceptions import CommitFailedException

        for tries_left in reversed(range(ATTEMPTS_MAX)):
            # pyiceberg's own retry would add the rows behind those of a driver that was faster.
            table.metadata.properties[RETRIES] = "0"
            try:
                with table.transaction() as change:
                    self._grow(table, change, arrow_schema(rows.schema))
                    self._summary = {
                        JOB: batch.job,
                        BATCH: str(batch.number),
                        PLANNED: batch.planned,
                    }
                    put(change)
                    change.set_properties({PROPERTY + batch.job: f"{batch.number} {batch.planned}"})
                return True
            except CommitFailedException:
                if not tries_left:
                    raise
                table = self._open()
                if self._is_there(table, batch):
                    return False
                self._duties_of(table)  # what came between may ask for more
        raise AssertionError("the last try raises")

    def _add(self, change: Any, files: list[str]) -> None:
        if files:
            change.add_files(files, self._summary, check_duplicate_files=False)

    def _append(self, change: Any, rows: Any) -> None:
        """Have pyiceberg write the rows. It takes those of a table with partitions as a whole."""
        found = fitted(rows, change.table_metadata.schema(), self.name)
        if change.table_metadata.spec().fields:
            found = found.read_all()
        change.append(found, self._summary)

    def _upsert(self, change: Any, rows: Any) -> None:
        found = fitted(rows, change.table_metadata.schema(), self.name).read_all()
        self._rules.check_keys(found, self.name)
        if len(found):
            change.upsert(
                found, join_cols=list(self._rules.upsert_by), snapshot_properties=self._summary
            )

    def _grow(self, table: Any, change: Any, schema: Any) -> None:
        """Add columns that the table lacks, in the commit of the batch."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        there = _types(schema_to_pyarrow(table.schema(), include_field_ids=False))
        given = _types(schema)
        if self._rules.check_columns(self.name, there, given):
            with change.update_schema() as update:
                update.union_by_name(schema)


def standing_batch(table: Any, job: str) -> str | None:
    """Number and digest of the last batch of `job` in the table. The property that says it stays where a
    table is rolled back to an older snapshot; then it is the last batch of the snapshots that remain. Raises
    `LedgerError` where those have expired."""
    found: str | None = table.properties.get(PROPERTY + job)
    batches = {
        snapshot.snapshot_id: f"{summary[BATCH]} {summary[PLANNED]}"
        for snapshot in table.metadata.snapshots
        if (summary := snapshot.summary) is not None and summary[JOB] == job
    }
    if found is None or found not in batches.values():
        return found
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary
        picked = None if summary is None else summary[PICKED]
        for number in (snapshot.snapshot_id, None if picked is None else int(picked)):
            if number in batches:
                return batches[number]
        if snapshot.sequence_number == 1:
            return None  # the table's first; one without a parent may have lost it
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    raise LedgerError(
        f"table {table.name()[-1]} was rolled back to a snapshot before batch {found.split()[0]} of {job},"
        " and the snapshots that tell which one came before have expired: give the job another name"
    )


def folder_of(table: Any) -> str:
    """The folder of the table, or its URI in a store."""
    return as_folder(table.location())


def _types(schema: Any) -> dict[str, str]:
    """Types by column, as Iceberg stores them: it has one type of text, of bytes and of list."""
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow

    normal = schema_to_pyarrow(_pyarrow_to_schema_without_ids(schema), include_field_ids=False)
    return {field.name: str(field.type) for field in normal}
