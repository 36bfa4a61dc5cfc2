"""A job that gets steps continues from its old checkpoint, and its queries are shown each for itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.cli.main import main
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.job_file import load
from barnabas.pipeline.jobs.job_run import JobRun
from tests.spark.conftest import MakeTopic
from tests.spark.topics import read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = """
name = "{target}"
checkpoint = "{directory}/checkpoint"

[cluster]
kafka.bootstrap.servers = "{bootstrap}"

[source{name}]
topics = ["{source}"]

[source{name}.options]
startingOffsets = "earliest"
"""
ONE_QUERY = """
[transform]
sql = "select key, value from source"

[[sink]]
topic = "{target}"
"""
STEPS = """
[step.copied]
sql = "select key, value from numbers"

[step.counted]
sql = "select value as key, cast(count(*) as string) as value from numbers group by 1"

[[sink]]
from = "copied"
topic = "{target}"

[[sink]]
from = "counted"
topic = "{counts}"
output_mode = "update"
"""


def test_a_job_that_gets_steps_continues_from_its_checkpoint_once_that_is_moved(
    spark: SparkSession,
    bootstrap: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target, counts = make_topic(1), make_topic(1), make_topic(1)
    words = {
        "directory": tmp_path, "bootstrap": bootstrap,
        "source": source, "target": target, "counts": counts,
    }  # fmt: skip
    file = tmp_path / "job.toml"

    def run() -> None:
        JobRun(load(str(file)), spark, lambda line: None).run(available_now=True)

    write(bootstrap, source, [b"a", b"b"])
    file.write_text((START + ONE_QUERY).format(**words, name=""))
    run()
    write(bootstrap, source, [b"c"])
    file.write_text((START + STEPS).format(**words, name=".numbers"))
    with pytest.raises(PipelineError, match=r"move it, with all that is in it, to .*/sinks/copied"):
        run()

    old = (tmp_path / "checkpoint").rename(tmp_path / "old")
    (tmp_path / "checkpoint" / "sinks").mkdir(parents=True)
    old.rename(tmp_path / "checkpoint" / "sinks" / "copied")
    capsys.readouterr()
    assert main(["pipeline", "explain", str(file), "--json"]) == 0
    ranges = json.loads(capsys.readouterr().out)["ranges"]
    assert [(found["sink"], found["start"], found["end"]) for found in ranges] == [
        ("copied", 2, 3),
        ("counted", 0, 3),
    ]
    run()
    assert [record.value for record in read(bootstrap, target)] == [b"a", b"b", b"c"]
    assert {(record.key, record.value) for record in read(bootstrap, counts)} == {
        (b"a", b"1"),
        (b"b", b"1"),
        (b"c", b"1"),
    }
    assert main(["pipeline", "status", str(file), "--json"]) == 0
    queries = json.loads(capsys.readouterr().out)["queries"]
    assert [(query["name"], query["batch"]) for query in queries] == [("copied", 1), ("counted", 0)]
    for query in queries:
        (partition,) = query["partitions"]
        assert (partition["topic"], partition["offset"], partition["lag"]) == (source, 3, 0)
        assert [sink["batch"] for sink in query["sinks"]] == [query["batch"]]
    assert main(["pipeline", "status", str(file)]) == 0
    said = capsys.readouterr().out
    assert f"{target}.copied: batch 1 is done" in said
    assert f"{target}.counted: batch 0 is done" in said
