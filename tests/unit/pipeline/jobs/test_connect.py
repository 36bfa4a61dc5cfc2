"""What a job over Spark Connect is refused for, before any server is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.connect import check_remote
from barnabas.pipeline.jobs.job_file import Job, load, parse

EXAMPLES = Path(__file__).parents[4] / "examples" / "pipelines"
VARIABLES = dict.fromkeys(("KAFKA", "TARGET"), "127.0.0.1:1") | {"DATA": "/data"}
LANDING = """\
name = "landing"
checkpoint = "/data/checkpoints/landing"

[cluster]
kafka.bootstrap.servers = "127.0.0.1:1"

[source]
topics = ["flights"]

[[sink]]
parquet = "/data/tables/landing"
land = true
"""


def job_of(name: str) -> Job:
    if name == "landing":
        return parse("job.toml", LANDING, {})
    return load(str(EXAMPLES / f"{name}.toml"), VARIABLES)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("audit", "RDDs"),
        ("mirror", "commits offsets beside each batch"),
        ("landing", "gathers the files of reading tasks in the driver"),
    ],
)
def test_a_job_that_needs_a_driver_of_its_own_is_refused_with_the_reason(
    name: str, reason: str
) -> None:
    with pytest.raises(PipelineError, match=reason):
        check_remote(job_of(name))


@pytest.mark.parametrize("name", ["topic_to_topic", "replay", "clickstream", "dead_letters"])
def test_other_jobs_are_not_refused(name: str) -> None:
    check_remote(job_of(name))


def test_the_command_says_why_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(LANDING)
    assert main(["pipeline", "run", str(job), "--remote", "sc://127.0.0.1:1"]) == 1
    said = capsys.readouterr().err
    assert "job landing does not run over Spark Connect: land = true" in said
    assert "--master" in said
