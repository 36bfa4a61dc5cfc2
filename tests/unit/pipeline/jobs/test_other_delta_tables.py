"""Delta tables of other writers: a rule is kept, or the table is refused by name, whatever way rows come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from barnabas.pipeline.errors import PipelineError, TableRefusedError
from barnabas.pipeline.jobs.tables.batch_files import Batch
from barnabas.pipeline.jobs.tables.compaction import compact_delta
from barnabas.pipeline.jobs.tables.delta_expressions import what_differs
from barnabas.pipeline.jobs.tables.delta_table import DeltaTable
from barnabas.pipeline.jobs.tables.table_rules import TableRules
from tests.unit.pipeline.jobs.arrow_frame import ArrowFrame, frame
from tests.unit.pipeline.jobs.other_tables import (
    REFUSED,
    WRITTEN,
    OtherTable,
    column,
    features,
    read_by_all,
    versions,
    with_a_deleted_row,
)

pytestmark = pytest.mark.slow

WAYS = {"append": TableRules(), "upsert": TableRules(upsert_by=("offset",))}
ROWS = [(0, b"a"), (1, b"b"), (2, b"c")]
named = pytest.mark.parametrize("other", WRITTEN, ids=lambda each: each.name)


def batch_of(rows: Sequence[tuple[int, bytes | None]]) -> Any:
    offsets, values = zip(*rows, strict=True)
    return frame(offset=pa.array(offsets, pa.int64()), value=pa.array(values, pa.binary()))


@named
@pytest.mark.parametrize("way", WAYS)
def test_readers_of_others_see_what_was_written(
    way: str, other: OtherTable, tmp_path: Path
) -> None:
    path = other.make(tmp_path)
    if other.name == "deletion-vectors":
        with_a_deleted_row(path)
    table = DeltaTable(str(path), WAYS[way])
    if way == "upsert" and other.upsert_refused:
        with pytest.raises(TableRefusedError, match=other.upsert_refused):
            table.begin()
        return
    table.begin()
    assert table.append(batch_of(ROWS[:2]), Batch("job", 0, "x"))
    assert not table.append(batch_of(ROWS[:2]), Batch("job", 0, "x"))
    again = ROWS if way == "upsert" else ROWS[2:]
    assert table.append(batch_of(again), Batch("job", 1, "y"))
    expected = ROWS + ([(100, b"kept")] if other.name == "deletion-vectors" else [])
    for reader, rows in read_by_all(other, path).items():
        assert [(row["offset"], row["value"]) for row in rows] == expected, reader
        if "twice" in rows[0]:
            assert [row["twice"] for row in rows] == [0, 2, 4], reader
    try:
        compact_delta(str(path))
    except PipelineError as error:
        assert "mapped" in other.name and "OPTIMIZE" in str(error)
    for reader, rows in read_by_all(other, path).items():
        assert [(row["offset"], row["value"]) for row in rows] == expected, reader


@pytest.mark.parametrize(
    "other", [each for each in WRITTEN if each.bad], ids=lambda each: each.name
)
@pytest.mark.parametrize("way", WAYS)
def test_rows_that_break_a_rule_of_the_table_are_refused(
    way: str, other: OtherTable, tmp_path: Path
) -> None:
    path = other.make(tmp_path)
    table = DeltaTable(str(path), WAYS[way])
    with pytest.raises(TableRefusedError, match="failed validation"):
        table.append(batch_of([*ROWS, (3, None)]), Batch("job", 0, "x"))
    assert table.last("job") is None
    assert all(not rows for rows in read_by_all(other, path).values())


@pytest.mark.parametrize("other", REFUSED, ids=lambda each: each.name)
@pytest.mark.parametrize("way", WAYS)
def test_a_feature_that_is_not_done_is_refused_by_its_name(
    way: str, other: OtherTable, tmp_path: Path
) -> None:
    path = other.make(tmp_path)
    version = path / "_delta_log" / f"{1:020}.json"
    for attempt in (
        lambda: DeltaTable(str(path), WAYS[way]).begin(),
        lambda: DeltaTable(str(path), WAYS[way]).append(batch_of(ROWS), Batch("job", 0, "x")),
        lambda: compact_delta(str(path)),
    ):
        with pytest.raises(PipelineError, match=other.refused):
            attempt()
    assert not version.exists()


@pytest.mark.parametrize("parts", [("day",), (), ("p", "n")])
def test_the_partitioning_of_the_table_counts(parts: tuple[str, ...], tmp_path: Path) -> None:
    fields = [column("day", "date"), column("p", "integer"), column("n", "long")]
    other = OtherTable("table", versions(2), fields, parts=parts)
    path = str(other.make(tmp_path))
    rows = pa.table(
        {
            "day": pa.array([19_000, 19_001, None], pa.date32()),
            "p": pa.array([1, 1, 2], pa.int32()),
            "n": pa.array([7, 8, 9], pa.int64()),
        }
    )
    table = DeltaTable(path)
    table.begin()
    table.append(ArrowFrame(rows), Batch("job", 0, "x"))
    assert deltalake.DeltaTable(path).metadata().partition_columns == list(parts)
    found = pa.table(
        deltalake.QueryBuilder()
        .register("t", deltalake.DeltaTable(path))
        .execute("select day, p, n from t order by n")
    )
    assert found.to_pylist() == rows.to_pylist()
    table = DeltaTable(path, TableRules(partition_by=("p",)))
    for attempt in (table.begin, lambda: table.append(ArrowFrame(rows), Batch("job", 1, "y"))):
        with pytest.raises(TableRefusedError, match="the job says partition_by p"):
            attempt()


def test_a_table_is_made_with_partitions_of_any_type_that_comes_back(tmp_path: Path) -> None:
    values = {
        "double": pa.array([1.5, float("inf"), None]),
        "local": pa.array([0, 1_700_000_000_000_001, None], pa.timestamp("us")),
        "decimal": pa.array(["1.50", "-3.00", None]).cast(pa.decimal128(10, 2)),
    }
    for name, part in values.items():
        rows = pa.table({"id": pa.array([1, 2, 3]), "part": part})
        path = str(tmp_path / name)
        table = DeltaTable(path, TableRules(partition_by=("part",)))
        assert table.append(ArrowFrame(rows), Batch("job", 0, "x"))
        found = deltalake.DeltaTable(path).to_pyarrow_table().sort_by("id")
        assert found.to_pylist() == rows.to_pylist()
    refused = {"binary": pa.array([b"a"]), "timestamp": pa.array([0], pa.timestamp("us", "UTC"))}
    for name, part in refused.items():
        for rules in (TableRules(("part",)), TableRules(("part",), upsert_by=("id",))):
            table = DeltaTable(str(tmp_path / "refused"), rules)
            with pytest.raises(TableRefusedError, match=f"which is {name}"):
                table.append(frame(id=pa.array([1]), part=part), Batch("job", 0, "x"))
    assert not (tmp_path / "refused").exists()


def test_a_table_with_rules_grows_and_lacks_columns_as_others_do(tmp_path: Path) -> None:
    settings = {"delta.constraints.a": "offset < 3"}
    other = OtherTable("table", features("checkConstraints"), settings=settings)
    path = other.make(tmp_path)
    table = DeltaTable(str(path), TableRules(adds_columns=True))
    table.append(batch_of(ROWS[:1]), Batch("job", 0, "x"))
    table.append(frame(offset=[1], more=["m"]), Batch("job", 1, "x"))
    expected = [
        {"offset": 0, "value": b"a", "more": None},
        {"offset": 1, "value": None, "more": "m"},
    ]
    assert all(rows == expected for rows in read_by_all(other, path).values())


def test_expressions_that_mean_the_same_are_let_through() -> None:
    same = [
        "offset < 3 and not (value is null)",
        "coalesce(length(trim(a.b)), 0) in (1, 2)",
        "cast(at as date)",
        "upper(name) = 'A/B || year(x)'",
        "`a/b` between -1 and (2 + 3) * 4 % 5",
        "cast(n as decimal(10, 2)) >= 0",
    ]
    assert [what_differs(each) for each in same] == [None] * len(same)
    others = {
        "n / 2": "/",
        "a || b": "||",
        "YEAR(at)": "year",
        "concat (a, b)": "concat",
        "n DIV 2": "DIV",
    }
    assert {each: what_differs(each) for each in others} == others
