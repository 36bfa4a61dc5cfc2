"""Run the tests with other people's software in two processes at a time, and write the report.

``python -m tools.run_interop [pytest options]``: the tests below ``tests/interop``, and beside them the other
tests that are marked ``interop``. Most of their time is waiting for clusters and JVMs to start. Nothing may
be skipped: a peer that is missing is a failure. Two of them at once can be too much for two cores, so
that what failed is tried again alone. The command fails where that fails too; the report names what failed at
first, and is written in any case.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tools import interop_report
from tools.run_tests import TESTS, Lane, run

BUILD = TESTS.parent / "build"
MARKS = "interop"
TIMEOUT_S = 900
"""What one test may take that does not say it itself: peers start slowly."""


def main() -> int:
    os.environ["BARNABAS_PEERS"] = "required"
    BUILD.mkdir(exist_ok=True)
    options = ["-v", *sys.argv[1:]]
    results = {name: BUILD / f"interop-{name}.xml" for name in ("beside", "clients", "again")}
    for result in results.values():
        result.unlink(missing_ok=True)
    status = run(
        [
            lane("beside", results["beside"], "tests/interop"),
            lane("clients", results["clients"], "tests", "--ignore=tests/interop"),
        ],
        options,
    )
    parts = [results["beside"], results["clients"]]
    failed = [
        case.place for part in parts for case in interop_report.cases(part) if not case.passed
    ]
    if failed:
        print(f"{len(failed)} tests failed beside others, and are tried again alone", flush=True)
        status = run([lane("again", results["again"], *failed)], options)
    interop_report.main(*parts, again=results["again"])
    return status


def lane(name: str, result: Path, *paths: str) -> Lane:
    return Lane(name, (*paths, f"--junitxml={result}"), timeout_s=TIMEOUT_S, marks=MARKS)


if __name__ == "__main__":
    sys.exit(main())
