"""Delta tables whose files deltalake would write again: as Spark writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barnabas.pipeline.errors import TableRefusedError
from barnabas.pipeline.jobs.tables.batch_files import Batch
from barnabas.pipeline.jobs.tables.compaction import compact_delta
from barnabas.pipeline.jobs.tables.delta_table import DeltaTable
from barnabas.pipeline.jobs.tables.table_rules import TableRules
from tests.unit.pipeline.jobs.arrow_frame import ArrowFrame, frame
from tests.unit.pipeline.jobs.other_tables import OLD, OtherTable, column, versions

pytestmark = pytest.mark.slow

NEAR, FAR = datetime(2026, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
INNER = {"type": "struct", "fields": [column("at", "timestamp")]}
LIST = {"type": "array", "elementType": "timestamp", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "timestamp", "valueContainsNull": True}
UPSERT = TableRules(upsert_by=("k",))


def as_spark_has_it(
    table: Path, rows: pa.Table, path: str = "", stats: dict[str, Any] | None = None
) -> None:
    """Add a file by a commit as Spark writes both: timestamps as INT96, letters of a path as they are."""
    number = len(list(table.glob("_delta_log/*.json")))
    name = path or f"part-{number}.snappy.parquet"
    (table / name).parent.mkdir(exist_ok=True)
    pq.write_table(rows, table / name, use_deprecated_int96_timestamps=True)
    parts = dict(folder.split("=") for folder in name.split("/")[:-1])
    add = {
        "path": name,
        "partitionValues": parts,
        "size": (table / name).stat().st_size,
        "modificationTime": OLD,
        "dataChange": True,
        "stats": json.dumps({"numRecords": len(rows), **(stats or {})}),
    }
    log = table / "_delta_log" / f"{number:020}.json"
    log.write_text(json.dumps({"add": add}, ensure_ascii=False))


def times(k: int, at: datetime | None, nested: str = "") -> pa.Table:
    stamp = pa.timestamp("us", "UTC")
    found: Any = pa.array([at], stamp)
    if nested == "struct":
        found = pa.array([{"at": at}], pa.struct({"at": stamp}))
    elif nested == "list":
        found = pa.array([[at]], pa.list_(stamp))
    elif nested == "map":
        found = pa.array([[("x", at)]], pa.map_(pa.string(), stamp))
    return pa.table({"k": pa.array([k], pa.int64()), "at": found})


@pytest.mark.parametrize(
    ("nested", "type_"), [("", "timestamp"), ("struct", INNER), ("list", LIST), ("map", MAP)]
)
def test_times_that_are_read_as_others_are_not_written_again(
    nested: str, type_: Any, tmp_path: Path
) -> None:
    fields = [column("k", "long"), column("at", type_)]
    path = OtherTable("far", versions(2), fields).make(tmp_path)
    as_spark_has_it(path, times(1, NEAR, nested))
    table = DeltaTable(str(path), UPSERT)
    table.begin()
    assert table.append(ArrowFrame(times(1, FAR, nested)), Batch("job", 0, "x"))
    if not nested:
        near = {
            "minValues": {"at": "2026-01-02T00:00:00.000Z"},
            "maxValues": {"at": "2026-01-02T00:00:00.000Z"},
        }
        as_spark_has_it(path, times(2, NEAR), stats=near)
        as_spark_has_it(path, times(3, None))
    assert table.append(ArrowFrame(times(1, FAR, nested)), Batch("job", 1, "x"))
    # Spark adds a file while the job runs.
    as_spark_has_it(path, times(4, FAR, nested))
    sentence = (
        r"INT96 times before 1678 or after 2261 in column at.*outputTimestampType=TIMESTAMP_MICROS"
    )
    with pytest.raises(TableRefusedError, match=sentence):
        table.append(ArrowFrame(times(5, NEAR, nested)), Batch("job", 2, "x"))
    with pytest.raises(TableRefusedError, match=sentence):
        DeltaTable(str(path), UPSERT).begin()
    with pytest.raises(TableRefusedError, match=sentence):
        compact_delta(str(path))
    appended = DeltaTable(str(path))
    appended.begin()
    assert appended.append(ArrowFrame(times(5, NEAR, nested)), Batch("job", 2, "x"))


def test_a_file_whose_name_deltalake_spells_otherwise_is_not_written_again(tmp_path: Path) -> None:
    fields = [column("k", "long"), column("p", "string")]
    path = OtherTable("letters", versions(2), fields, parts=("p",)).make(tmp_path)
    rows = pa.table({"k": pa.array([1], pa.int64())})
    as_spark_has_it(path, rows, "p=Koeln/part-0.parquet")
    upserted = DeltaTable(str(path), UPSERT)
    upserted.begin()
    as_spark_has_it(path, rows, "p=Köln/part-0.parquet")
    batch = frame(k=pa.array([1], pa.int64()), p=["Köln"])
    for attempt in (upserted.begin, lambda: upserted.append(batch, Batch("job", 0, "x"))):
        with pytest.raises(
            TableRefusedError, match=r"p=Köln/part-0\.parquet with letters beyond ASCII"
        ):
            attempt()
    with pytest.raises(TableRefusedError, match="letters beyond ASCII"):
        compact_delta(str(path))
    table = DeltaTable(str(path))
    table.begin()
    assert table.append(batch, Batch("job", 0, "x"))
    assert len(deltalake.DeltaTable(path).to_pyarrow_table()) == 3
