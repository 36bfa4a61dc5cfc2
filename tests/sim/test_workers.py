"""Seeds are played by processes of their own, which end with whoever asked."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.sim.report import UNPLAYED

PLAYS = """
from barnabas.sim.workers import workers

def play_chunk(*_, **__):
    print("plays", flush=True)
    while True:
        pass

if __name__ == "__main__":
    with workers(2, 1) as pool:
        pool.map(play_chunk, range(2))
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
def test_workers_end_with_whoever_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "plays.py"
    script.write_text(PLAYS)
    played = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert played.stdout is not None
    assert played.stdout.readline() == "plays\n"
    played.send_signal(signal.SIGKILL)
    played.communicate()  # ends when nobody holds the other end any more
