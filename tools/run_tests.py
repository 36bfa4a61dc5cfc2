"""Run all tests in two processes at a time: those that compute, and those that wait for other processes.

``python -m tools.run_tests [pytest options]``. Tests of the second kind start clusters and JVMs and mostly
wait for them. Those of the first kind run beside them with less priority, so that a cluster gets the time
that it needs. Before them come Apache Kafka's Java clients, where they can be had: the tests that need them
skip with a sentence otherwise. The output of the second kind appears as it comes, that of the first kind
behind it. Exits with a status other than 0 where either has one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools import peers

TESTS = Path(__file__).resolve().parent.parent / "tests"
COMPUTING = ("unit", "golden", "model", "scripts", "sim", "test_tidy.py", "test_prose.py")
"""Folders and modules of `tests` that start no cluster."""
NICENESS = "10"
"""What is added to the niceness of the tests that compute."""
TIMEOUT_S = 300
"""What one of them may take: it gets little while Spark works."""


def waiting_paths() -> list[str]:
    """Everything else, so that a new folder of tests is never left out."""
    found = sorted(
        path.name
        for path in TESTS.iterdir()
        if (path.is_dir() or path.name.startswith("test_")) and path.name[0] not in "._"
    )
    return [f"tests/{name}" for name in found if name not in COMPUTING] + ["examples"]


def command(paths: Sequence[str], options: Sequence[str]) -> list[str]:
    pytest = [sys.executable, "-m", "pytest", "-m", "not long", "--durations=10"]
    return [*pytest, *options, *paths]


def bring_clients() -> None:
    """Leave the sentence about what is missing to the tests, as the variable that `tests.peers` reads."""
    problem = peers.problem_of_clients()
    if problem is not None:
        print(problem, flush=True)
        os.environ["BARNABAS_CLIENTS_PROBLEM"] = problem


def main() -> int:
    options = sys.argv[1:]
    bring_clients()
    computing_paths = [f"tests/{name}" for name in COMPUTING]
    own = ["-o", "cache_dir=.pytest_cache/computing", "-o", f"timeout={TIMEOUT_S}"]
    with tempfile.TemporaryFile() as output:
        computing = subprocess.Popen(
            ["nice", "-n", NICENESS, *command(computing_paths, [*own, *options])],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            waiting = subprocess.call(command(waiting_paths(), options))
            status = computing.wait()
        finally:
            computing.kill()
            computing.wait()
        output.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(output.read())
    return waiting or status


if __name__ == "__main__":
    sys.exit(main())
