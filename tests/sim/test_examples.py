"""The worked examples of docs/simulator.md run, and a seed tells the same twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulator"


@pytest.mark.parametrize("example", ["killed_leader.py", "split_network.py"])
def test_an_example_runs_and_repeats_itself(example: str) -> None:
    command = [sys.executable, str(EXAMPLES / example), "3"]
    first, second = (subprocess.check_output(command, text=True) for _ in range(2))
    assert first == second
    assert "\ntrace " in first
