"""Every job file of the project passes the rules that hold for users' files."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipeline.jobs.job_file import load

ROOT = Path(__file__).parents[4]
FILES = [
    path
    for folder in ("src/barnabas/demo", "examples/pipelines")
    for path in sorted((ROOT / folder).glob("*.toml"))
    if "checkpoint" in path.read_text()
]
ADDRESS = "127.0.0.1:9092"
ENVIRONMENT = {"KAFKA": ADDRESS, "SOURCE": ADDRESS, "TARGET": ADDRESS, "DATA": "/data"}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_job_that_the_project_ships_is_valid(file: Path) -> None:
    assert load(str(file), ENVIRONMENT).name


def test_the_jobs_of_the_demo_are_among_them() -> None:
    assert {"landing", "delays"} <= {path.stem for path in FILES}
