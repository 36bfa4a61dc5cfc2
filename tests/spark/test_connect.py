"""A job over Spark Connect: a client without a JVM, and a server from pip alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.conftest import MakeTopic
from tests.spark.connect_server import connect_server
from tests.spark.topics import read, write

pytest.importorskip("grpc_status", reason="pip install 'barnabas[connect]'")
JOB_S = 600
pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(3 * JOB_S)]
ROWS = 20
JOB = """
name = "{target}"
checkpoint = "{directory}/checkpoint"

[cluster]
kafka.bootstrap.servers = "{bootstrap}"

[source.numbers]
topics = ["{source}"]

[source.numbers.options]
startingOffsets = "earliest"
value.format = "json"
value.schema = "id BIGINT"

[step.all]
sql = "select data.id from numbers"

[step.even]
python = "steps:even"
from = ["all"]

[[sink]]
from = "all"
delta = "{directory}/delta"

[[sink]]
from = "even"
topic = "{target}"

[dead_letters]
topic = "{dead}"
"""
STEPS = """
def even(rows):
    return rows.where("id % 2 = 0").selectExpr("cast(id as string) as key", "cast(id as string) as value")
"""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


def numbers(bootstrap: str, topic: str, first: int, end: int) -> None:
    write(bootstrap, topic, (json.dumps({"id": n}).encode() for n in range(first, end)))


def run_remote(directory: Path, remote: str) -> str:
    command = [sys.executable, "-m", "barnabas", "pipeline", "run", "job.toml", "--available-now"]
    done = subprocess.run(
        [*command, "--remote", remote],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def test_a_job_with_steps_lands_each_row_once_when_a_server_runs_it(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, remote: str
) -> None:
    from deltalake import DeltaTable

    source, target, dead = make_topic(2), make_topic(1), make_topic(1)
    numbers(bootstrap, source, 0, ROWS)
    write(bootstrap, source, [b"{bad"])
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "job.toml").write_text(
        JOB.format(directory=tmp_path, bootstrap=bootstrap, source=source, target=target, dead=dead)
    )
    said = run_remote(tmp_path, remote)
    assert "all: batch 0: " in said
    numbers(bootstrap, source, ROWS, 2 * ROWS)
    run_remote(tmp_path, remote)
    even = [str(n) for n in range(0, 2 * ROWS, 2)]
    assert sorted((record.value or b"").decode() for record in read(bootstrap, target)) == sorted(
        even
    )
    table = DeltaTable(tmp_path / "delta").to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == list(range(2 * ROWS))
    assert [record.value for record in read(bootstrap, dead)] == [b"{bad"]
