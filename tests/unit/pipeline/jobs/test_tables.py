"""Tables take a batch once and show it whole, also where drivers die and checkpoints are restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from barnabas.pipeline.errors import LedgerError, TableRefusedError
from barnabas.pipeline.jobs.tables.batch_files import Batch, write_staged
from barnabas.pipeline.jobs.tables.parquet_table import ParquetTable
from tests.unit.pipeline.jobs.arrow_frame import ArrowFrame


def frame(*rows: int) -> Any:
    return ArrowFrame(pa.table({"n": list(rows)}))


def rows_in(table: Path) -> list[int]:
    return sorted(ds.dataset(table, format="parquet").to_table()["n"].to_pylist())


def test_a_repeated_batch_changes_nothing(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    assert table.append(frame(1, 2), Batch("job", 0, "a"))
    assert not table.append(frame(2, 1), Batch("job", 0, "a"))
    assert table.append(frame(3), Batch("job", 1, "b"))
    assert rows_in(tmp_path) == [1, 2, 3]
    assert table.batches("job") == [0, 1]


def test_a_batch_that_is_under_way_is_not_seen_and_is_swept(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.append(frame(1), Batch("job", 0, "a"))
    write_staged(frame(7), str(tmp_path), Batch("job", 1, "b"), ())  # and the driver is killed
    assert rows_in(tmp_path) == [1]
    table.begin()
    assert table.append(frame(7), Batch("job", 1, "b"))
    assert rows_in(tmp_path) == [1, 7]


def test_another_batch_of_the_same_number_is_an_error(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.append(frame(1), Batch("job", 0, "a"))
    with pytest.raises(LedgerError, match="rolled back or begun again"):
        table.append(frame(8), Batch("job", 0, "other"))
    assert rows_in(tmp_path) == [1]


def test_two_jobs_append_to_one_table(tmp_path: Path) -> None:
    for job in ("one", "two"):
        assert ParquetTable(str(tmp_path)).append(frame(1), Batch(job, 0, job))
    assert rows_in(tmp_path) == [1, 1]


def test_rows_with_the_column_of_the_folders_are_refused(tmp_path: Path) -> None:
    rows: Any = ArrowFrame(pa.table({"batch": [1]}))
    with pytest.raises(LedgerError, match="a column 'batch'"):
        ParquetTable(str(tmp_path)).append(rows, Batch("job", 0, "a"))


def test_the_partitioning_of_a_folder_counts(tmp_path: Path) -> None:
    rows: Any = ArrowFrame(pa.table({"p": ["a", "b"], "n": [1, 2]}))
    ParquetTable(str(tmp_path), ("p",)).append(rows, Batch("job", 0, "a"))
    with pytest.raises(TableRefusedError, match="the job says partition_by n"):
        ParquetTable(str(tmp_path), ("n",)).begin()
    with pytest.raises(TableRefusedError, match="has folders by p"):
        ParquetTable(str(tmp_path)).append(rows, Batch("job", 1, "b"))
    table = ParquetTable(str(tmp_path))
    table.begin()
    assert table.append(rows, Batch("job", 1, "b"))
    found = ds.dataset(tmp_path, format="parquet", partitioning="hive").to_table()
    assert sorted(found["p"].to_pylist()) == ["a", "a", "b", "b"]
