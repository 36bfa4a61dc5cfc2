"""Tables that were restored or rolled back: what is in them counts, not what identifiers say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from barnabas.pipeline.errors import LedgerError
from barnabas.pipeline.jobs.tables.batch_files import Batch
from barnabas.pipeline.jobs.tables.delta_table import DeltaTable
from tests.unit.pipeline.jobs.arrow_frame import frame
from tests.unit.pipeline.jobs.table_kinds import NAME, catalog_of, rows_of, table_of

pytestmark = pytest.mark.slow


def test_a_batch_that_a_roll_back_took_is_written_again(tmp_path: Path) -> None:
    table = table_of("iceberg", tmp_path)

    def append(number: int, *ids: int) -> bool:
        return table.append(frame(id=list(ids) or [number]), Batch("job", number, "x"))

    def opened() -> Any:
        return load_catalog("default", **catalog_of(tmp_path)).load_table(NAME)

    def snapshots() -> list[int]:
        return [each.snapshot_id for each in opened().metadata.snapshots]

    def roll_back(number: int) -> None:
        opened().manage_snapshots().rollback_to_snapshot(snapshots()[number]).commit()

    assert [append(number) for number in (0, 1, 2)] == [True] * 3
    roll_back(1)
    assert not append(1)
    assert append(2)
    assert not append(2)
    with pytest.raises(LedgerError, match="Roll the table back to the snapshot before"):
        append(1)
    assert rows_of("iceberg", tmp_path)["id"].to_pylist() == [2, 1, 0]
    roll_back(0)
    assert [append(number) for number in (1, 2)] == [True] * 2
    assert rows_of("iceberg", tmp_path)["id"].to_pylist() == [2, 1, 0]
    roll_back(0)
    opened().manage_snapshots().set_current_snapshot(snapshots()[0]).commit()
    assert append(1, 10)


def test_a_roll_back_to_what_no_snapshot_tells_ends_the_job(tmp_path: Path) -> None:
    table = table_of("iceberg", tmp_path)
    for number in (0, 1):
        assert table.append(frame(id=[number]), Batch("other", number, "x"))
    assert table.append(frame(id=[2]), Batch("job", 0, "x"))
    opened = load_catalog("default", **catalog_of(tmp_path)).load_table(NAME)
    first, second, _ = (each.snapshot_id for each in opened.metadata.snapshots)
    opened.manage_snapshots().rollback_to_snapshot(second).commit()
    opened.maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(LedgerError, match="was rolled back to a snapshot before batch 0 of job"):
        table.append(frame(id=[2]), Batch("job", 0, "x"))


def restored(path: Path, version: int | None) -> None:
    """A commit of Spark's ``RESTORE``; the transaction identifiers stay."""
    table = deltalake.DeltaTable(path)
    if version is not None:
        table.restore(version)
        return
    info = {"operation": "RESTORE", "operationParameters": {"timestamp": "2026-01-02 00:00:00"}}
    log = path / "_delta_log" / f"{table.version() + 1:020}.json"
    log.write_text(json.dumps({"commitInfo": {"timestamp": 1_700_000_000_000, **info}}))


def test_a_batch_that_a_restore_took_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "restored"
    deltalake.DeltaTable.create(path, pa.schema([("k", pa.int64())]))
    table = DeltaTable(str(path))

    def append(number: int) -> bool:
        return table.append(frame(k=pa.array([number], pa.int64())), Batch("job", number, "x"))

    def rows() -> list[int]:
        found: list[int] = deltalake.DeltaTable(path).to_pyarrow_table()["k"].to_pylist()
        return sorted(found)

    assert [append(number) for number in (0, 1, 2)] == [True] * 3
    restored(path, 2)
    assert append(2)
    assert not append(2)
    with pytest.raises(LedgerError, match=r"rolled back or begun again\. Restore the table"):
        append(1)
    restored(path, 0)
    assert rows() == []
    assert [append(number) for number in (0, 1)] == [True] * 2
    restored(path, 2)  # the version that had batches 0 and 1
    assert not append(1)
    assert rows() == [0, 1]
    restored(path, None)
    with pytest.raises(LedgerError, match="by its number"):
        append(1)
