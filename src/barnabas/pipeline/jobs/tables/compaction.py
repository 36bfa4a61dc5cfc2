"""Merges small files of a table into large ones; the rows stay the same.

- Delta: ``OPTIMIZE`` of deltalake, in one commit.
- Iceberg: the small files of each partition are read and written as few, and one commit replaces them. If
  another commit comes between, it fails and nothing has changed.
- Parquet: a folder has no log. The folders of old batches are merged into one, in steps that a later
  compaction finishes if this one is killed. Readers may miss rows meanwhile: stop them and the job before.
  The last batch of each job keeps its folder, because Spark may repeat it.

Files that a commit no longer names stay on disk for readers of old versions, until the table's own tools
(``vacuum``, ``expire_snapshots``) remove them.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.job_file import Job
from barnabas.pipeline.jobs.tables import delta_duties, iceberg_duties
from barnabas.pipeline.jobs.tables.batch_files import STAGED, sync
from barnabas.pipeline.jobs.tables.delta_rewrites import DeltaRewrites
from barnabas.pipeline.jobs.tables.delta_table import open_delta
from barnabas.pipeline.jobs.tables.iceberg_rewrites import IcebergRewrites
from barnabas.pipeline.jobs.tables.parquet_table import (
    COLUMN,
    COMPACTION,
    MARK,
    ParquetTable,
    finish_compaction,
)
from barnabas.pipeline.places.place_names import as_folder, is_in_store

TARGET_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many files were merged, and how many they became."""

    table: str
    before: int
    after: int


def compact_tables(job: Job | None, path: str, target_bytes: int) -> list[Compacted]:
    """Compact the tables of a job, or the one at `path`. Raises `PipelineError`."""
    if job is None:
        is_delta = is_in_store(path) or Path(as_folder(path), "_delta_log").is_dir()
        return [
            compact_delta(path, target_bytes) if is_delta else compact_parquet(path, target_bytes)
        ]
    found = []
    for sink in job.sinks:
        match sink.kind:
            case "delta":
                found.append(compact_delta(sink.place, target_bytes))
            case "iceberg":
                found.append(compact_iceberg(sink.place, sink.catalog, target_bytes))
            case "parquet":
                found.append(compact_parquet(sink.place, target_bytes))
    if not found:
        raise PipelineError(f"job {job.name} has no table")
    return found


def compact_delta(path: str, target_bytes: int = TARGET_BYTES) -> Compacted:
    from deltalake.exceptions import DeltaError

    table = open_delta(as_folder(path))
    if table is None:
        raise PipelineError(f"there is no Delta table at {path}")
    delta_duties.duties_of(table, path)
    DeltaRewrites(as_folder(path)).check(table)
    try:
        found = table.optimize.compact(target_size=target_bytes)
    except DeltaError as error:
        raise PipelineError(f"table {path}: {error}") from error
    return Compacted(path, int(found["numFilesRemoved"]), int(found["numFilesAdded"]))


# -- Iceberg -------------------------------------------------------------------------------------


def compact_iceberg(
    name: str, properties: Mapping[str, str], target_bytes: int = TARGET_BYTES
) -> Compacted:
    """Compact a table. Raises `PipelineError` if another commit came between."""
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
    from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files

    from barnabas.pipeline.jobs.tables.iceberg_table import open_catalog

    try:
        table = open_catalog(properties).load_table(name)
    except NoSuchTableError as error:
        raise PipelineError(str(error)) from error
    iceberg_duties.duties_of(table, name)
    IcebergRewrites(name).check(table)
    lots = list(_lots_of(table, target_bytes))
    before = after = 0
    if not lots:
        return Compacted(name, 0, 0)
    scan = table.scan()
    try:
        with table.transaction() as change:
            summary = {"barnabas.compaction": str(sum(len(lot) for lot in lots))}
            with change.update_snapshot(summary).overwrite() as overwrite:
                for tasks in lots:
                    reader = ArrowScan(
                        change.table_metadata, table.io, scan.projection(), scan.row_filter
                    )
                    rows = reader.to_table(tasks)
                    for task in tasks:
                        overwrite.delete_data_file(task.file)
                    for file in _dataframe_to_data_files(change.table_metadata, rows, table.io):
                        overwrite.append_data_file(file)
                        after += 1
                    before += len(tasks)
    except CommitFailedException as error:
        raise PipelineError(
            f"table {name} was written meanwhile, nothing is changed: {error}"
        ) from error
    return Compacted(name, before, after)


def _lots_of(table: Any, target_bytes: int) -> Iterator[list[Any]]:
    """Groups of two or more small files of one partition, each group of about `target_bytes`."""
    waiting: dict[str, list[Any]] = {}
    for task in table.scan().plan_files():
        file = task.file
        if file.spec_id != table.spec().spec_id or file.file_size_in_bytes >= target_bytes // 2:
            continue
        waiting.setdefault(repr(file.partition), []).append(task)
    for _, tasks in sorted(waiting.items()):
        lot: list[Any] = []
        size = 0
        for task in tasks:
            if lot and size + task.file.file_size_in_bytes > target_bytes:
                if len(lot) > 1:
                    yield lot
                lot, size = [], 0
            lot.append(task)
            size += task.file.file_size_in_bytes
        if len(lot) > 1:
            yield lot


# -- a folder of Parquet files -------------------------------------------------------------------


def compact_parquet(path: str, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Compact a Parquet folder. Raises `PipelineError` if no job has written it."""
    table = Path(as_folder(path))
    finish_compaction(table)
    before = after = 0
    jobs = sorted(
        {_job_of(folder) for folder in table.glob(f"{COLUMN}=*") if (folder / MARK).is_file()}
    )
    if not jobs:
        raise PipelineError(f"{path} has no batches of a job: there is nothing to compact")
    for job in jobs:
        numbers = ParquetTable(path).batches(job)[:-1]
        merged_before = ParquetTable(path).compacted(job)
        old = [folder for _, _, folder in merged_before]
        old += [table / f"{COLUMN}={job}-{number}" for number in numbers]
        files = sum(1 for folder in old for _ in folder.rglob("*.parquet"))
        if len(old) < 2:
            continue
        merged = table / STAGED / f"compaction-{uuid.uuid4().hex}"
        made = _merge(old, merged, target_bytes)
        first = min([begin for begin, _, _ in merged_before] + numbers)
        last = max([end for _, end, _ in merged_before] + numbers)
        name = f"{COLUMN}={job}-{first}_{last}"
        mark = merged / MARK
        mark.write_text(json.dumps({"version": 1, "planned": "", "batches": len(old)}))
        for place in (mark, *(below for below in merged.rglob("*") if below.is_dir()), merged):
            sync(place)
        plan = table / COMPACTION
        steps = {"merged": merged.name, "name": name, "old": [folder.name for folder in old]}
        half = plan.with_suffix(".half")
        half.write_text(json.dumps(steps))
        sync(half)
        os.rename(half, plan)
        sync(table)
        finish_compaction(table)
        before, after = before + files, after + made
    return Compacted(path, before, after)


def _job_of(folder: Path) -> str:
    return folder.name.removeprefix(f"{COLUMN}=").rpartition("-")[0]


def _merge(old: list[Path], merged: Path, target_bytes: int) -> int:
    """Write the rows of `old` into the same subfolders of `merged`; returns the number of files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    by_folder: dict[Path, list[Path]] = {}
    for folder in old:
        for file in sorted(folder.rglob("*.parquet")):
            by_folder.setdefault(file.relative_to(folder).parent, []).append(file)
    made = 0
    merged.mkdir(parents=True)
    for below, files in sorted(by_folder.items()):
        folder = merged / below
        folder.mkdir(parents=True, exist_ok=True)
        schema = pa.unify_schemas([pq.read_schema(file) for file in files])
        while files:
            lot, size = [files.pop(0)], 0
            size = lot[0].stat().st_size
            while files and size + files[0].stat().st_size <= target_bytes:
                size += files[0].stat().st_size
                lot.append(files.pop(0))
            made += 1
            target = folder / f"part-{made:05}.parquet"
            with pq.ParquetWriter(target, schema, compression="snappy") as writer:
                for file in lot:
                    _copy(pq.ParquetFile(file), writer, schema)
            sync(target)
    return made


def _copy(source: Any, writer: Any, schema: Any) -> None:
    import pyarrow as pa

    for batch in source.iter_batches():
        columns = [
            batch.column(field.name).cast(field.type)
            if field.name in batch.schema.names
            else pa.nulls(len(batch), field.type)
            for field in schema
        ]
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
