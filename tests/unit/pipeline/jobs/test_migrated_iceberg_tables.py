"""Iceberg tables with files of a Parquet table, as Spark's ``add_files`` and ``migrate`` take them over."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from barnabas.pipeline.errors import TableRefusedError
from barnabas.pipeline.jobs.tables.batch_files import Batch
from barnabas.pipeline.jobs.tables.compaction import compact_iceberg
from barnabas.pipeline.jobs.tables.iceberg_table import IcebergTable
from barnabas.pipeline.jobs.tables.table_rules import TableRules
from tests.unit.pipeline.jobs.arrow_frame import ArrowFrame
from tests.unit.pipeline.jobs.other_iceberg_tables import MAPPING
from tests.unit.pipeline.jobs.table_kinds import NAME, catalog_of

pytestmark = pytest.mark.slow

NEAR, FAR = datetime(2026, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
UPSERT = TableRules(upsert_by=("k",))


def times(k: int, at: datetime | None, *, nested: bool) -> pa.Table:
    stamp = pa.timestamp("us", "UTC")
    found: Any = pa.array([[at]], pa.list_(stamp)) if nested else pa.array([at], stamp)
    return pa.table({"k": pa.array([k], pa.int64()), "at": found})


def migrate(properties: dict[str, str], folder: Path, rows: pa.Table) -> None:
    """Add a file as Spark writes it, with timestamps as INT96: these have no bounds."""
    file = folder / f"part-{rows['k'][0]}.parquet"
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True)
    table = load_catalog("default", **properties).load_table(NAME)
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{file}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=file.stat().st_size,
    )
    data_file.spec_id = 0
    with table.transaction() as change:
        change.set_properties({MAPPING: table.schema().name_mapping.model_dump_json()})
        with change.update_snapshot().fast_append() as append:
            append.append_data_file(data_file)


@pytest.mark.parametrize("nested", [False, True])
def test_times_that_are_read_as_others_are_not_written_again(nested: bool, tmp_path: Path) -> None:
    properties = catalog_of(tmp_path)

    def batch(k: int, at: datetime | None) -> Any:
        return ArrowFrame(times(k, at, nested=nested))

    table = IcebergTable(NAME, properties, UPSERT)
    assert table.append(batch(1, FAR), Batch("job", 0, "x"))
    migrate(properties, tmp_path, times(2, NEAR, nested=nested))
    migrate(properties, tmp_path, times(3, None, nested=nested))
    assert table.append(batch(1, NEAR), Batch("job", 1, "x"))
    migrate(properties, tmp_path, times(4, FAR, nested=nested))
    for attempt in (
        lambda: table.append(batch(2, NEAR), Batch("job", 2, "x")),
        IcebergTable(NAME, properties, UPSERT).begin,
        lambda: compact_iceberg(NAME, properties),
    ):
        with pytest.raises(
            TableRefusedError, match="INT96 times before 1678 or after 2261 in column at"
        ):
            attempt()
    appended = IcebergTable(NAME, properties)
    appended.begin()
    assert appended.append(batch(5, FAR), Batch("job", 2, "x"))
