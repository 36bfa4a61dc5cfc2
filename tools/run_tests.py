"""Run all tests in three processes at a time: those that compute, those of Spark, those of clusters.

``python -m tools.run_tests [pytest options]``. Tests of clusters mostly wait for other processes, and those
of Spark wait for a JVM half of the time. The tests that compute run beside them with less priority, so that a
cluster gets the time that it needs. Before them come Apache Kafka's Java clients, where they can be had: the
tests that need them skip with a sentence otherwise. The output of the clusters' tests appears as it comes,
that of the others behind it. The command fails where one of the three fails. A process that tests leave
behind is named and ended: it would take a core from whatever runs next.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools import peers

RUN = f"BARNABAS_TEST_RUN={os.getpid()}"
"""A variable by which a process is known as one that a test of this run has started."""
TESTS = Path(__file__).resolve().parent.parent / "tests"
COMPUTING = (
    "unit",
    "sim",
    "test_tidy.py",
    "test_prose.py",
    "test_wiring.py",
)
"""Folders and modules of `tests` that start no cluster."""
SPARK = (
    "spark",
    "docs",
    "interop",
    "console",
    "contract",
    "model",
    "golden",
    "scripts",
    "unit/host/test_helper.py",
    "unit/log/compaction/test_compaction_helper.py",
)
"""Folders and modules of `tests` whose tests mostly use Spark, and behind them some of clusters and some that
compute: so all three take about the same time. A helper process has less priority than its node: behind tests
that themselves have less, it would hardly run."""


@dataclass(frozen=True)
class Lane:
    """Tests that one process runs one after the other."""

    name: str
    paths: tuple[str, ...]
    niceness: int = 0
    timeout_s: int = 120
    """What one test may take that does not say it itself."""
    effort: str = "1"
    """The share of the examples that tests draw, unless `BARNABAS_EFFORT` is set; `make sim` draws all."""
    marks: str = "not long"
    """The expression of markers that chooses among the tests of `paths`."""

    def command(self, options: Sequence[str]) -> list[str]:
        return [
            *("nice", "-n", str(self.niceness), sys.executable, "-m", "pytest"),
            *("-m", self.marks, "--durations=10", "-o", f"timeout={self.timeout_s}"),
            *("-o", f"cache_dir=.pytest_cache/{self.name}", *options, *self.paths),
        ]

    def start(self, options: Sequence[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        """Run it; `output` gets what it prints, standard output if it is None."""
        return subprocess.Popen(
            self.command(options),
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"BARNABAS_EFFORT": self.effort, **os.environ, **dict([RUN.split("=")])},
        )


def lanes() -> tuple[Lane, Lane, Lane]:
    """The cluster's tests are everything else, so that a new folder of tests is never left out."""
    found = sorted(
        path.name
        for path in TESTS.iterdir()
        if (path.is_dir() or path.name.startswith("test_")) and path.name[0] not in "._"
    )
    others = [f"tests/{name}" for name in found if name not in (*COMPUTING, *SPARK)]
    apart = [f"--ignore=tests/{name}" for name in SPARK if "/" in name]
    return (
        # The examples are not beside the pages, whose jobs have the same names on the same cluster.
        Lane("clusters", (*others, "examples", *apart)),
        Lane("spark", tuple(f"tests/{name}" for name in SPARK), effort="0.3"),
        Lane(
            "computing",
            (*(f"tests/{name}" for name in COMPUTING), *apart),
            niceness=5,
            timeout_s=300,
            effort="0.3",
        ),
    )


def bring_clients() -> None:
    """Leave the sentence about what is missing to the tests, as the variable that `tests.peers` reads."""
    problem = peers.problem_of_clients()
    if problem is not None:
        print(problem, flush=True)
        os.environ["BARNABAS_CLIENTS_PROBLEM"] = problem


def main() -> int:
    bring_clients()
    return run(lanes(), sys.argv[1:])


def run(chosen: Sequence[Lane], options: Sequence[str]) -> int:
    """Run the lanes at once, and print what the first one prints as it comes. Returns the status of the first
    one that failed, else 0."""
    first, *beside = chosen
    began = time.monotonic()
    with ThreadPoolExecutor() as waiting, ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in beside]
        started = [
            stack.enter_context(ended(lane.start(options, output)))
            for lane, output in zip(beside, outputs, strict=True)
        ]
        processes = [stack.enter_context(ended(first.start(options, None))), *started]
        ends = list(waiting.map(lambda process: (process.wait(), time.monotonic()), processes))
        sys.stdout.flush()
        for output in outputs:
            output.seek(0)
            sys.stdout.buffer.write(output.read())
        sys.stdout.buffer.flush()
    for left in end_what_is_left():
        print(f"left behind by a test, and ended now: {left}")
    for lane, (status, at) in zip(chosen, ends, strict=True):
        print(f"{lane.name}: status {status} after {at - began:.0f} s")
    return next((status for status, _ in ends if status), 0)


def end_what_is_left() -> list[str]:
    """Kill the processes of this run's tests that still run. Returns their ids and commands; none where the
    system has no ``/proc``."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it is gone by now, or another user's
            if RUN.encode() in (process / "environ").read_bytes().split(b"\0"):
                command = (
                    (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                os.kill(int(process.name), signal.SIGKILL)
                left.append(f"{process.name} {command[:200]}")
    return left


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """It does not outlive the block."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
