"""docs/testing.md: its tests pass in a project that has nothing but them, and its program runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks

pytestmark = [pytest.mark.process, pytest.mark.slow]
RUN_S = 110.0


def run(folder: Path, *command: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_tests_and_the_program_of_the_page_run(tmp_path: Path) -> None:
    orders, faults, simulated, aio, program = (
        b.text for b in blocks("docs/testing.md") if b.language == "python"
    )
    (tmp_path / "test_simulated.py").write_text(simulated)
    (tmp_path / "test_orders.py").write_text(orders)
    (tmp_path / "test_faults.py").write_text(faults)
    (tmp_path / "test_aio.py").write_text(aio)
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert "5 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert run(tmp_path, "program.py").startswith("127.0.0.1:")


def test_the_cluster_of_pipes_answers_as_the_page_shows(tmp_path: Path) -> None:
    [command] = (b.text for b in blocks("docs/testing.md") if "pipes" in b.words)
    [shown] = (b.text for b in blocks("docs/testing.md") if b.language == "json")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=RUN_S, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [json.loads(line) for line in shown.splitlines()]
    assert [line.keys() for line in lines] == [line.keys() for line in expected]
    assert lines[1] == expected[1]
