"""Iceberg tables of other writers: a rule is kept, or the table is refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from barnabas.pipeline.errors import TableRefusedError
from barnabas.pipeline.jobs.tables.batch_files import Batch
from barnabas.pipeline.jobs.tables.compaction import compact_iceberg
from barnabas.pipeline.jobs.tables.iceberg_table import IcebergTable
from barnabas.pipeline.jobs.tables.table_rules import TableRules
from tests.unit.pipeline.jobs.arrow_frame import ArrowFrame
from tests.unit.pipeline.jobs.other_iceberg_tables import (
    REFUSED,
    WRITTEN,
    OtherIceberg,
    read_by_all,
)
from tests.unit.pipeline.jobs.table_kinds import NAME, catalog_of
from tests.unit.pipeline.jobs.test_other_delta_tables import ROWS, WAYS, batch_of

pytestmark = pytest.mark.slow

named = pytest.mark.parametrize("other", WRITTEN, ids=lambda each: each.name)


@named
@pytest.mark.parametrize("way", WAYS)
def test_readers_of_others_see_what_was_written(
    way: str, other: OtherIceberg, tmp_path: Path
) -> None:
    properties = other.make(tmp_path / "table")
    table = IcebergTable(other.table, properties, WAYS[way])
    table.begin()
    assert table.append(batch_of(ROWS[:2]), Batch("job", 0, "x"))
    assert not table.append(batch_of(ROWS[:2]), Batch("job", 0, "x"))
    again = ROWS if way == "upsert" else ROWS[2:]
    assert table.append(batch_of(again), Batch("job", 1, "y"))
    for reader, rows in read_by_all(properties, other.table).items():
        assert [(row["offset"], row["value"]) for row in rows] == ROWS, reader
    orders = [
        each.file.sort_order_id
        for each in load_catalog("default", **properties)
        .load_table(other.table)
        .scan()
        .plan_files()
    ]
    assert not any(orders)
    compact_iceberg(other.table, properties)
    for reader, rows in read_by_all(properties, other.table).items():
        assert [(row["offset"], row["value"]) for row in rows] == ROWS, reader


@pytest.mark.parametrize("way", WAYS)
def test_rows_without_a_required_column_are_refused(way: str, tmp_path: Path) -> None:
    (other,) = [each for each in WRITTEN if each.bad]
    properties = other.make(tmp_path / "table")
    table = IcebergTable(other.table, properties, WAYS[way])
    with pytest.raises(TableRefusedError, match="requires value, and a row of the batch has none"):
        table.append(batch_of([*ROWS, (3, None)]), Batch("job", 0, "x"))
    assert table.last("job") is None
    assert all(not rows for rows in read_by_all(properties, other.table).values())


@pytest.mark.parametrize("other", REFUSED, ids=lambda each: each.name)
@pytest.mark.parametrize("way", WAYS)
def test_a_duty_that_is_not_done_is_refused_by_its_name(
    way: str, other: OtherIceberg, tmp_path: Path
) -> None:
    properties = other.make(tmp_path / "table")
    for attempt in (
        lambda: IcebergTable(other.table, properties, WAYS[way]).begin(),
        lambda: IcebergTable(other.table, properties, WAYS[way]).append(
            batch_of(ROWS), Batch("job", 0, "x")
        ),
        lambda: compact_iceberg(other.table, properties),
    ):
        with pytest.raises(TableRefusedError, match=other.refused):
            attempt()


def test_the_partitioning_of_the_table_counts(tmp_path: Path) -> None:
    (other,) = [each for each in WRITTEN if each.name == "identity"]
    properties = other.make(tmp_path / "table")
    table = IcebergTable(other.table, properties, TableRules(partition_by=("value",)))
    for attempt in (
        table.begin,
        lambda: table.append(batch_of(ROWS), Batch("job", 0, "x")),
    ):
        with pytest.raises(
            TableRefusedError, match="is partitioned by offset, the job says partition_by value"
        ):
            attempt()


def test_a_table_is_made_with_partitions_of_any_type_that_comes_back(tmp_path: Path) -> None:
    values = {
        "timestamp": pa.array([0, 1_700_000_000_000_001, None], pa.timestamp("us", "UTC")),
        "decimal": pa.array(["1.50", "-3.00", None]).cast(pa.decimal128(10, 2)),
        "binary": pa.array([b"\xff\x00", b"", None]),
    }
    for name, part in values.items():
        rows = pa.table({"id": pa.array([1, 2, 3]), "part": part})
        (tmp_path / name).mkdir()
        properties = catalog_of(tmp_path / name)
        table = IcebergTable(NAME, properties, TableRules(partition_by=("part",)))
        assert table.append(ArrowFrame(rows), Batch("job", 0, "x"))
        found = load_catalog("default", **properties).load_table(NAME).scan().to_arrow()
        assert found.sort_by("id")["part"].to_pylist() == part.to_pylist()
    (tmp_path / "double").mkdir()
    table = IcebergTable(NAME, catalog_of(tmp_path / "double"), TableRules(partition_by=("part",)))
    rows = pa.table({"part": [1.5, float("nan")]})
    with pytest.raises(TableRefusedError, match="partitioned by a column that is double"):
        table.append(ArrowFrame(rows), Batch("job", 0, "x"))


def test_a_null_and_an_empty_text_are_two_partitions(tmp_path: Path) -> None:
    properties = catalog_of(tmp_path)
    table = IcebergTable(NAME, properties, TableRules(partition_by=("part",)))
    parts = ["", None, "=", "__HIVE_DEFAULT_PARTITION__", "a/b"]
    rows = pa.table({"id": list(range(len(parts))), "part": parts})
    assert table.append(ArrowFrame(rows), Batch("job", 0, "x"))
    found = load_catalog("default", **properties).load_table(NAME)
    assert found.scan().to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
    # Spark takes the column from the partition of its file.
    assert {task.file.partition[0] for task in found.scan().plan_files()} == set(parts)
