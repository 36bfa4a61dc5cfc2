"""Seeds are played by processes of their own, which end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.sim.runner.report import UNPLAYED

PLAYS = """
import os
from barnabas.sim.runner.worker_pool import in_order

def play_chunk(*_, **__):
    os.write(1, b"plays\\n")  # in one piece: two workers say it
    while True:
        pass

if __name__ == "__main__":
    list(in_order(play_chunk, range(2), 2, 1))
"""


@pytest.mark.timeout(60)
def test_seeds_are_played_by_workers() -> None:
    command = [sys.executable, "-m", "barnabas.sim", "--from", "1", "--seeds", "2", "--jobs", "2"]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.timeout(60)
def test_a_seed_loads_nothing_that_a_journal_passes_over() -> None:
    plays = """
import sys
from barnabas.sim.run import play_seed

assert not play_seed(1).failure
print(*{name.split(".")[1] for name in sys.modules if name.startswith("barnabas.")})
"""
    command = [sys.executable, "-c", plays]
    loaded = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert "sim" in loaded
    assert not {*loaded} & {*UNPLAYED}


@pytest.mark.timeout(60)
def test_workers_end_with_their_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "plays.py"
    script.write_text(PLAYS)
    played = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert played.stdout is not None
        assert played.stdout.readline() == "plays\n"
        played.send_signal(signal.SIGKILL)
        played.communicate()  # ends when no process holds the other end any more
    finally:
        with suppress(ProcessLookupError):  # workers that run for ever where the test fails
            os.killpg(played.pid, signal.SIGKILL)


KILLED = """
import os, signal
from barnabas.sim.runner.worker_pool import in_order

def play_chunk(seed):
    if seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return -seed

if __name__ == "__main__":
    for played in in_order(play_chunk, range(9), 2, 2):
        print(played, flush=True)
"""


@pytest.mark.timeout(60)
def test_a_worker_that_is_killed_ends_the_run_and_is_named(tmp_path: Path) -> None:
    """The system does that to the process that takes its last memory; the pool that played before waited for
    ever."""
    script = tmp_path / "plays.py"
    script.write_text(KILLED)
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ran.stdout in ("0\n-1\n-2\n", "0\n-1\n", "0\n", "")  # the other worker may be later
    assert ran.returncode == 1
    assert "WorkerLostError: the process that played 3 was killed" in ran.stderr
