"""docs/pipelines.md: each of its jobs is right, and its test of a job passes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

from barnabas.cli.main import main
from barnabas.pipeline.jobs.job_file import load
from barnabas.pipeline.testing import PipelineTest
from barnabas.testing.cluster import Cluster
from tests.docs.blocks import ROOT, Reader, blocks
from tests.spark.commands import command_in
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["barnabas.pipeline.testing"]
PAGE = "docs/pipelines.md"
A_TEST = "test"
"""The word of a block that is a file of tests."""
PART = "sink"
"""The word of a block in place of the sinks of the page's first job."""


def jobs() -> list[tuple[str, str]]:
    """The TOML blocks of the page as whole files, each with the heading above it."""
    found = [block for block in blocks(PAGE) if block.language == "toml"]
    assert len(found) == 4
    first = found[0].text
    source = first.partition("[transform]")[0]
    return [
        (block.title, f"{source}{block.text}" if PART in block.words else block.text)
        for block in found
    ]


@pytest.mark.parametrize("text", [pytest.param(text, id=title) for title, text in jobs()])
def test_each_job_of_the_page_is_right(
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA", "127.0.0.1:9092")
    file = tmp_path / "job.toml"
    file.write_text(text)
    assert main(["pipeline", "validate", str(file)]) == 0, capsys.readouterr().err


FLIGHTS = [b"ua 1", b"dl 2", b"aa 3"]
CLICKS = [
    b'{"id": "1", "page": "/a", "user": "ann", "ts": "2026-01-01T10:00:00Z"}',
    b'{"id": "2", "page": "/a", "user": "bob", "ts": "2026-01-01T10:00:30Z"}',
    b'{"id": "1", "page": "/a", "user": "ann", "ts": "2026-01-01T10:00:00Z"}',
    b"no click",
]
ORDERS = [b'{"user": "ann", "amount": 2.5, "ts": "2026-01-01T10:02:00Z"}']


@pytest.mark.process
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_job_of_the_page_lands_each_row_once(
    pipeline: Callable[..., PipelineTest],
    pipeline_cluster: Cluster,
    pipeline_spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fixture `pipeline` cleans up: its tests have jobs of the same names on the same cluster."""
    reader = Reader(pipeline_cluster, tmp_path)
    monkeypatch.setenv("KAFKA", pipeline_cluster.bootstrap)
    command = command_in(pipeline_spark)
    topics = "flights loud-flights clicks orders clicks-per-minute bought-pages clicks-dead"
    reader.shell(f"barnabas topics create {topics} -p 1 -r 1")
    for topic, values in {"flights": FLIGHTS, "clicks": CLICKS, "orders": ORDERS}.items():
        write(pipeline_cluster.bootstrap, topic, values)
    for number, (_, text) in enumerate(jobs()):
        file = tmp_path / f"{number}.toml"
        for site in ("east:9092", "west:9092"):
            text = text.replace(site, pipeline_cluster.bootstrap)
        text = reader.here(text)
        if "land = true" in text:
            text = text.replace("/checkpoints/", "/landed/").replace('"loud-flights"', '"landed"')
        file.write_text(text)
        assert load(str(file)).sinks or "[mirror]" in text
        for _ in "once", "again":
            command("run", str(file), "--available-now")

    def found(topic: str) -> list[bytes]:
        return sorted(record.value or b"" for record in read(pipeline_cluster.bootstrap, topic))

    assert found("loud-flights") == [b"AA 3", b"DL 2", b"UA 1"]
    assert found("clicks-per-minute") == [b"2"]
    assert found("bought-pages") == [b"/a"]
    assert found("clicks-dead") == [b"no click"]
    assert found("east.flights") == sorted(FLIGHTS)
    tables = tmp_path / "data" / "tables"
    assert sorted(pq.read_table(tables / "visits")["id"].to_pylist()) == ["1", "2"]
    assert sorted(pq.read_table(tables / "flights")["value"].to_pylist()) == sorted(FLIGHTS)
    loud = pq.read_table(tables / "loud-flights")["value"].to_pylist()
    assert sorted(loud) == ["AA 3", "DL 2", "UA 1"]
    lag = re.compile(
        r'kafka_consumergroup_lag\{consumergroup="spark-[^"]+",topic="flights",[^}]+\} 0'
    )
    pipeline_cluster.wait_for(
        lambda: lag.search(metrics(pipeline_cluster)), "the lag of a job by its group"
    )


def metrics(cluster: Cluster) -> str:
    """What the only node of `cluster` answers to a scrape."""
    with urlopen(f"{cluster.state['nodes'][0]['metrics']}/metrics") as page:
        return str(page.read(), "utf-8")


@pytest.mark.process
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_page_s_test_of_a_job_passes(
    pipeline: Callable[..., PipelineTest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = (block for block in blocks(PAGE) if A_TEST in block.words)
    folder = tmp_path / "jobs"
    folder.mkdir()
    copy(ROOT / "examples" / "pipelines" / "topic_to_topic.toml", folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(block.text, names)
    assert names["pytest_plugins"] == pytest_plugins
    names["test_flights_become_loud"](pipeline)
