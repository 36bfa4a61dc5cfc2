"""docs/pipelines.md: each of its jobs is right, and its test of a job passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.pipeline.testing import PipelineTest
from tests.docs.blocks import ROOT, blocks

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
