"""Delta and Iceberg tables: each batch once, upserts, new columns, partitions, compaction."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from pyiceberg.exceptions import CommitFailedException

from barnabas.pipeline.errors import LedgerError, PipelineError
from barnabas.pipeline.jobs.tables.batch_files import STAGED, Batch
from barnabas.pipeline.jobs.tables.compaction import compact_delta, compact_iceberg, compact_parquet
from barnabas.pipeline.jobs.tables.delta_table import DeltaTable
from barnabas.pipeline.jobs.tables.iceberg_table import IcebergTable
from barnabas.pipeline.jobs.tables.parquet_table import COMPACTION, ParquetTable
from barnabas.pipeline.jobs.tables.table_rules import TableRules
from tests.unit.pipeline.jobs.arrow_frame import frame
from tests.unit.pipeline.jobs.table_kinds import NAME, catalog_of, rows_of, table_of

pytestmark = pytest.mark.slow

KINDS = ("delta", "iceberg")


def rows_in(kind: str, directory: Path) -> list[dict[str, Any]]:
    rows = rows_of(kind, directory).to_pylist()
    return sorted(rows, key=lambda row: (row["id"], row.get("v") or ""))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_lands_once_however_often_it_is_repeated(kind: str, tmp_path: Path) -> None:
    for run in range(2):  # as if the driver had been killed and started again
        table = table_of(kind, tmp_path, partition_by=("v",))
        table.begin()
        if run == 0:
            assert table.append(frame(id=[1, 2, 3], v=["a", "a", "b"]), Batch("job", 0, "x"))
        assert not table.append(frame(id=[1, 2, 3], v=["a", "a", "b"]), Batch("job", 0, "x"))
    assert table.append(frame(id=[4, 5], v=[None, "c"]), Batch("job", 1, "y"))
    assert table.append(frame(id=[9], v=["c"]), Batch("other", 0, "z"))
    assert [row["id"] for row in rows_in(kind, tmp_path)] == [1, 2, 3, 4, 5, 9]
    assert table.last("job") == 1
    with pytest.raises(LedgerError, match="rolled back or begun again"):
        table.append(frame(id=[5], v=["a"]), Batch("job", 1, "another plan"))
    with pytest.raises(LedgerError, match="rolled back or begun again"):
        table.append(frame(id=[5], v=["a"]), Batch("job", 0, "x"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_upsert_replaces_rows_of_its_keys_once(kind: str, tmp_path: Path) -> None:
    table = table_of(kind, tmp_path, upsert_by=("id", "v"))
    assert table.append(frame(id=[1, 2], v=["a", "a"], n=[1, 1]), Batch("job", 0, "x"))
    assert table.append(frame(id=[2, 2], v=["a", "b"], n=[2, 2]), Batch("job", 1, "y"))
    assert not table.append(frame(id=[2, 2], v=["a", "b"], n=[2, 2]), Batch("job", 1, "y"))
    expected = [
        {"id": 1, "v": "a", "n": 1},
        {"id": 2, "v": "a", "n": 2},
        {"id": 2, "v": "b", "n": 2},
    ]
    assert rows_in(kind, tmp_path) == expected
    with pytest.raises(PipelineError, match="order_by says which"):
        table.append(frame(id=[7, 7], v=["a", "a"], n=[1, 2]), Batch("job", 2, "z"))
    with pytest.raises(PipelineError, match="has no v"):
        table.append(frame(id=[7, 8], v=["a", None], n=[1, 2]), Batch("job", 2, "z"))
    assert rows_in(kind, tmp_path) == expected


def test_rows_of_a_key_that_are_last_together_and_differ_are_an_error() -> None:
    rules = TableRules(upsert_by=("id",), order_by=("at",))
    rules.check_keys(pa.table({"id": [1, 2], "at": [7, 7], "n": [1, 2]}), "t")
    tie = pa.table({"id": [1, 1, 2], "at": [7, 7, 7], "n": [1, 2, 3]})
    with pytest.raises(
        PipelineError,
        match=r"2 rows of id = 1: they have the same at, so order_by needs one more column",
    ):
        rules.check_keys(tie, "t")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("upsert_by", [(), ("id",)])
def test_new_columns_are_added_where_the_option_says_so(
    kind: str, upsert_by: tuple[str, ...], tmp_path: Path
) -> None:
    strict = table_of(kind, tmp_path, upsert_by=upsert_by)
    strict.append(frame(id=[1], v=["a"]), Batch("job", 0, "x"))
    with pytest.raises(LedgerError, match="add-columns"):
        strict.append(frame(id=[2], v=["b"], w=[1.5]), Batch("job", 1, "y"))
    growing = table_of(kind, tmp_path, upsert_by=upsert_by, adds_columns=True)
    with pytest.raises(LedgerError, match="column v of table"):
        growing.append(frame(id=[2], v=[7], w=[1.5]), Batch("job", 1, "y"))
    assert growing.append(frame(id=[2], v=["b"], w=[1.5]), Batch("job", 1, "y"))
    assert growing.append(frame(id=[3], w=[2.5]), Batch("job", 2, "z"))
    assert rows_in(kind, tmp_path) == [
        {"id": 1, "v": "a", "w": None},
        {"id": 2, "v": "b", "w": 1.5},
        {"id": 3, "v": None, "w": 2.5},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_two_drivers_that_commit_one_batch_write_it_once(kind: str, tmp_path: Path) -> None:
    table_of(kind, tmp_path).append(frame(id=[0], v=["a"]), Batch("job", 0, "x"))
    tables = [table_of(kind, tmp_path) for _ in range(2)]
    failures: list[Exception] = []

    def write(table: DeltaTable | IcebergTable) -> None:
        try:
            table.append(frame(id=[1, 2], v=["b", "b"]), Batch("job", 1, "y"))
        except (
            DeltaError,
            CommitFailedException,
        ) as error:  # the one that loses may fail: its query ends
            failures.append(error)

    threads = [threading.Thread(target=write, args=(each,)) for each in tables]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(failures) < 2
    assert [row["id"] for row in rows_in(kind, tmp_path)] == [0, 1, 2]
    properties = table_of(kind, tmp_path)
    assert properties.last("job") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_compaction_leaves_the_rows_and_fewer_files(kind: str, tmp_path: Path) -> None:
    table = table_of(kind, tmp_path, partition_by=("v",))
    for n in range(4):
        table.append(frame(id=[n, n + 10], v=["a", "b"]), Batch("job", n, str(n)))
    before = rows_in(kind, tmp_path)
    if kind == "delta":
        found = compact_delta(str(tmp_path / "delta"))
        again = compact_delta(str(tmp_path / "delta"))
    else:
        found = compact_iceberg(NAME, catalog_of(tmp_path))
        again = compact_iceberg(NAME, catalog_of(tmp_path))
    assert (found.before, found.after) == (8, 2)
    assert (again.before, again.after) == (0, 0)
    assert rows_in(kind, tmp_path) == before
    # The ledger is untouched: the last batch is known, the next one is written.
    assert not table_of(kind, tmp_path).append(
        frame(id=[3, 13], v=["a", "b"]), Batch("job", 3, "3")
    )
    assert table_of(kind, tmp_path).append(frame(id=[4], v=["a"]), Batch("job", 4, "4"))
    assert len(rows_in(kind, tmp_path)) == 9


@pytest.mark.parametrize("killed_after", range(8))
def test_a_killed_compaction_of_a_folder_is_finished(
    killed_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    import pyarrow.dataset as ds

    class Killed(BaseException):
        pass

    table = ParquetTable(str(tmp_path))
    for n in range(4):
        table.append(frame(id=[n]), Batch("job", n, str(n)))
    left = [killed_after]
    rename = os.rename

    def counted(source: Any, target: Any) -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", counted)
        try:
            compact_parquet(str(tmp_path))
        except Killed:
            assert left[0] == 0
    table = ParquetTable(str(tmp_path))
    table.begin()
    assert not (tmp_path / COMPACTION).exists()
    assert not (tmp_path / STAGED).exists()
    assert sorted(ds.dataset(tmp_path, format="parquet").to_table()["id"].to_pylist()) == [
        0,
        1,
        2,
        3,
    ]
    compact_parquet(str(tmp_path))
    assert not table.append(frame(id=[3]), Batch("job", 3, "3"))
    with pytest.raises(LedgerError, match="rolled back"):
        table.append(frame(id=[1]), Batch("job", 1, "1"))
    assert table.append(frame(id=[4]), Batch("job", 4, "4"))
    assert compact_parquet(str(tmp_path)).before == 2
    assert [each.name for each in sorted(tmp_path.glob("batch=*"))] == [
        "batch=job-0_3",
        "batch=job-4",
    ]
    assert sorted(ds.dataset(tmp_path, format="parquet").to_table()["id"].to_pylist()) == [
        0,
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_gets_no_names_that_differ_by_case_alone(kind: str, tmp_path: Path) -> None:
    table = table_of(kind, tmp_path, adds_columns=True)
    assert table.append(frame(id=[1], Name=["a"]), Batch("job", 0, "x"))
    with pytest.raises(
        LedgerError, match="has the column Name, the batch has name: Spark does not"
    ):
        table.append(frame(id=[2], name=["b"]), Batch("job", 1, "y"))
    assert table.append(frame(id=[2], more=["b"]), Batch("job", 1, "y"))
