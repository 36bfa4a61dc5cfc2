"""The demo finds what is missing, doubled or wrong, and says so."""

from __future__ import annotations

import io
import json
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barnabas.demo.flights import Delays, Figures, Row, data_file, figures_of, read_rows, to_json
from barnabas.demo.outcome import Changelog, Landed, compare, read_landed
from barnabas.demo.progress import PlainProgress, show_checks
from barnabas.demo.spark_process import missing_java

ROWS = 3_000


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(islice(read_rows(data_file()), ROWS))


@pytest.fixture(scope="module")
def truth(rows: list[Row]) -> Figures:
    return figures_of(rows)


def changelog_of(truth: Figures) -> Changelog:
    return Changelog(dict(truth.by_origin_and_hour), 100, 0)


def land(rows: list[Row], directory: Path) -> Landed:
    """Write rows as a job's Parquet sink leaves them: batches by month, and one that is under way."""
    for number, month in enumerate(sorted({row["month"] for row in rows}, key=str)):
        file = directory / f"batch=landing-{number}" / f"month={month}" / "part-0.parquet"
        file.parent.mkdir(parents=True)
        mine = [
            {k: v for k, v in row.items() if k != "month"} for row in rows if row["month"] == month
        ]
        pq.write_table(pa.Table.from_pylist(mine), file)
    under_way = directory / "_staged" / "9-abc" / "month=1" / "part-0.parquet"
    under_way.parent.mkdir(parents=True)
    whole = directory / "batch=landing-0" / "month=1" / "part-0.parquet"
    under_way.write_bytes(whole.read_bytes())
    return read_landed(directory)


def test_rows_are_the_packages(rows: list[Row]) -> None:
    assert rows[0]["row"] == 0 and rows[0]["carrier"] == "UA" and rows[0]["distance"] == 1400
    assert json.loads(to_json(rows[7])) == rows[7]
    assert any(row["arr_delay"] is None for row in rows)


def test_figures_count_missing_delays_apart() -> None:
    flight: Row = {"distance": 10, "month": 1, "origin": "EWR", "hour": 5}
    found = figures_of(
        [
            {**flight, "dep_delay": 3, "arr_delay": -2},
            {**flight, "dep_delay": 4, "arr_delay": None},
            {**flight, "dep_delay": None, "arr_delay": None},
        ]
    )
    assert found.by_origin_and_hour == {"EWR-05": Delays(3, 30, 2, 7, 1, -2)}
    assert (found.rows, found.distance, found.by_month) == (3, 30, {1: 3})


@pytest.mark.slow
def test_rows_that_landed_once_agree(rows: list[Row], truth: Figures, tmp_path: Path) -> None:
    checks = compare(truth, land(rows, tmp_path), changelog_of(truth), 100)
    assert [each.claim for each in checks if not each.holds] == []


def test_a_missing_and_a_doubled_flight_are_noticed(
    rows: list[Row], truth: Figures, tmp_path: Path
) -> None:
    landed = land([*rows[:-1], rows[0]], tmp_path)
    wrong = {
        each.claim for each in compare(truth, landed, changelog_of(truth), 100) if not each.holds
    }
    assert {"different row numbers", "first and last row number"} <= wrong
    assert "flights in Parquet" not in wrong


def test_a_changelog_that_repeats_or_lacks_a_record_is_noticed(
    rows: list[Row], truth: Figures, tmp_path: Path
) -> None:
    landed = land(rows, tmp_path)
    latest = dict(truth.by_origin_and_hour)
    latest[sorted(latest)[0]] = Delays()
    doubled = Changelog(latest, records=101, repeated=1)
    wrong = {each.claim for each in compare(truth, landed, doubled, 100) if not each.holds}
    assert wrong == {"origin and hour in delays", "changes in delays", "changes that came twice"}


def test_plain_lines_and_a_table(rows: list[Row], truth: Figures, tmp_path: Path) -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.update("stream", "some")
    progress.update("stream", "some more")
    progress.done("stream", "all")
    progress.failed("check", "no")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3 and "ok stream: all" in lines[1] and "!! check: no" in lines[2]
    show_checks(compare(truth, land(rows, tmp_path), changelog_of(truth), 100), stream)
    assert "miles flown" in stream.getvalue()


def test_missing_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "none is found" in (missing_java() or "")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.1\" 2018' >&2\n")
    java.chmod(0o755)
    assert "is version 11" in (missing_java() or "")
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\" 2023' >&2\n")
    assert missing_java() is None
