"""The run of all tests ends the processes that its tests leave behind, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.run_tests import RUN, end_what_is_left

SLEEPS = (sys.executable, "-c", "import sys; sys.stdin.read()")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by /proc")
def test_a_process_that_a_test_leaves_behind_is_ended() -> None:
    name, _, value = RUN.partition("=")
    others = {key: known for key, known in os.environ.items() if key != name}
    with (
        subprocess.Popen(SLEEPS, stdin=subprocess.PIPE, env=others | {name: value}) as left,
        subprocess.Popen(SLEEPS, stdin=subprocess.PIPE, env=others | {name: "1"}) as other,
    ):
        ended = end_what_is_left()
        assert [line.partition(" ")[0] for line in ended] == [str(left.pid)]
        assert "sys.stdin.read()" in ended[0]
        assert left.wait(10) < 0 and other.poll() is None
