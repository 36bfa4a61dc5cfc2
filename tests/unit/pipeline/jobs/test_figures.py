"""The figures of a micro-batch: by source, by phase, with lag and the group that has the offsets."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from barnabas.pipeline.jobs.figures import figures_of
from barnabas.pipeline.jobs.job_file import Job, Source
from barnabas.pipeline.read.lag import BEHIND, SECONDS
from tests.json_shapes import assert_documented

CLICKS = Source({"subscribe": "clicks"}, name="clicks")
ORDERS = Source({"subscribe": "orders, more"}, name="orders")
JOB = Job("job.toml", "shop", "/c", CLICKS, (), more_sources=(ORDERS,))


def source(topic: str, rows: int, behind: dict[str, int] | None) -> SimpleNamespace:
    latest = json.dumps({topic: {"0": 9}} | ({} if behind is None else {BEHIND: behind}))
    return SimpleNamespace(
        endOffset=json.dumps({topic: {"0": 7}}), latestOffset=latest, numInputRows=rows
    )


def progress(*sources: Any) -> SimpleNamespace:
    took = {
        "latestOffset": 5,
        "addBatch": 1500,
        "queryPlanning": 80,
        "walCommit": 30,
        "commitOffsets": 40,
    }
    return SimpleNamespace(
        id="q-1",
        batchId=7,
        batchDuration=2000,
        timestamp="2024-03-01T12:00:00.000Z",
        durationMs={**took, "triggerExecution": 2000},
        sources=list(sources),
    )


def test_a_batch_of_one_source_has_lag_phases_and_its_commit() -> None:
    found = figures_of(
        JOB, "", (CLICKS,), progress(source("clicks", 50, {"offsets": 900, SECONDS: 12})), 40
    )
    assert str(found) == (
        "batch 7: 40 rows in 2.0 s (20 rows/s), 900 offsets and 12 s behind;"
        " offsets 0.01, plan 0.08, sinks 1.50, commit 0.07 s; committed 12:00:02 UTC"
    )
    assert found.group == "spark-q-1"
    assert_documented(["pipeline", "run"], json.loads(json.dumps(found.describe())))
    assert found.describe()["sources"][0]["seconds_behind"] == 12


def test_a_batch_of_a_join_has_figures_of_each_source() -> None:
    sources = source("orders", 10, {"offsets": 0}), source("clicks", 50, None)
    found = figures_of(JOB, "bought", (CLICKS, ORDERS), progress(*sources), 60)
    assert [(each.name, each.rows, each.offsets_behind) for each in found.sources] == [
        ("orders", 10, 0),
        ("clicks", 50, None),
    ]
    assert str(found).startswith(
        "bought: batch 7: 60 rows in 2.0 s (30 rows/s), orders 5 rows/s, 0 behind, clicks 25 rows/s;"
    )


def test_files_have_no_group() -> None:
    files = Source({}, files="/data/in")
    found = figures_of(
        JOB,
        "",
        (files,),
        progress(SimpleNamespace(endOffset=None, latestOffset=None, numInputRows=3)),
        3,
    )
    assert found.group is None
    assert "behind" not in str(found)
