"""docs/pipelines.md: each of its jobs is right, and its test of a job passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

from barnabas.cli.main import main
from barnabas.demo.spark_process import missing_java
from tests.docs.blocks import NOT_RUN, ROOT, Block, blocks

PAGE = "docs/pipelines.md"
A_TEST = "test"
"""The word of a block that is a file of tests."""
PART = "sink"
"""The word of a block that stands for the sinks of the page's first job."""
TEST_S = 300.0


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


def test_no_python_of_the_page_is_left_out() -> None:
    python = [block for block in blocks(PAGE) if block.language == "python"]
    assert not [block.title for block in python if NOT_RUN in block.words]
    assert [block.title for block in python if A_TEST in block.words] == ["Tests of a job"]


@pytest.mark.process
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(missing_java() is not None, reason=str(missing_java()))
def test_the_page_s_test_of_a_job_passes(tmp_path: Path) -> None:
    (block,) = (block for block in blocks(PAGE) if A_TEST in block.words)
    (tmp_path / "jobs").mkdir()
    copy(ROOT / "examples" / "pipelines" / "topic_to_topic.toml", tmp_path / "jobs")
    done = run_pytest(block, tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "1 passed" in done.stdout


def run_pytest(block: Block, directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "test_page.py").write_text(block.text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}, cwd=directory,
        capture_output=True, text=True, check=False, timeout=TEST_S,
    )  # fmt: skip
