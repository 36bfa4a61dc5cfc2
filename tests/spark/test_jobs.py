"""Jobs from a file: run as users run them, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.spark.checkpoints import uncommit
from tests.spark.commands import Command
from tests.spark.conftest import MakeTopic
from tests.spark.test_interpreter import JOB_S, bare_environment
from tests.spark.topics import read, write

JOB = """
name = "copy"
checkpoint = "{directory}/copy"

[cluster]
kafka.bootstrap.servers = "{bootstrap}"

[source]
topics = ["{source}"]

[source.options]
startingOffsets = "earliest"

[transform]
sql = "select key, concat('n', cast(value as string)) as value from source"

[[sink]]
topic = "{target}"

[[sink]]
parquet = "{directory}/copied"

[[sink]]
delta = "{directory}/delta"
"""


def barnabas(directory: Path, environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "pipeline", *words],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert not done.stderr, "nothing is said of Spark, Java or pandas that was not asked for"
    return done.stdout


def test_a_job_that_runs_again_lands_each_row_once_in_topic_and_table(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, command: Command
) -> None:
    """The first run is a process of its own, whose environment is not activated."""
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

    source, target = make_topic(2), make_topic(1)
    write(bootstrap, source, (b"%d" % n for n in range(50)))
    environment = bare_environment(tmp_path)
    job = tmp_path / "job.toml"
    job.write_text(
        JOB.format(directory=tmp_path, bootstrap=bootstrap, source=source, target=target)
    )
    explained = json.loads(command("explain", str(job), "--json"))
    assert explained["rows"] == 50
    assert 50 < explained["bytes"] == sum(each["bytes"] for each in explained["ranges"])
    words = ("run", str(job), "--master", "local[2]", "--available-now")
    first = barnabas(tmp_path, environment, *words)
    (line,) = [each for each in first.splitlines() if each.startswith("batch 0: 50 rows")]
    assert ", 0 behind; offsets " in line
    assert " UTC" in line.partition("; committed ")[2]
    uncommit(tmp_path / "copy", 0)
    write(bootstrap, source, (b"%d" % n for n in range(50, 60)))
    command(*words)
    expected = sorted(f"n{n}" for n in range(60))
    assert sorted((each.value or b"").decode() for each in read(bootstrap, target)) == expected
    assert sorted(pq.read_table(tmp_path / "copied")["value"].to_pylist()) == expected
    delta = DeltaTable(tmp_path / "delta").to_pyarrow_table()
    assert sorted(delta["value"].to_pylist()) == expected
    status = json.loads(command("status", str(job), "--json"))
    assert (status["batch"], status["planned"]) == (1, None)
    assert sum(each["lag"] for each in status["partitions"]) == 0
    assert sum(each["offset"] for each in status["partitions"]) == 60
    assert [each["in_group"] for each in status["partitions"]] == [
        each["offset"] for each in status["partitions"]
    ]
    assert [each["batch"] for each in status["sinks"]] == [1, 1, 1]
    assert [each["sink"].split()[0] for each in status["sinks"]] == ["topic", "parquet", "delta"]
