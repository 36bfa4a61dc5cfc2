"""Run the tests with other people's software in two processes at a time, and write the report.

``python -m tools.run_interop [pytest options]``: the tests below ``tests/interop``, and beside them the other
tests that are marked ``interop``. Most of their time is waiting for clusters and JVMs to start. Nothing may
be skipped: a peer that is missing is a failure. The command fails where one of the two fails; the report is
written all the same.
"""

from __future__ import annotations

import os
import sys

from tools import interop_report
from tools.run_tests import TESTS, Lane, run

BUILD = TESTS.parent / "build"
MARKS = "interop"
TIMEOUT_S = 900
"""What one test may take that does not say it itself: peers start slowly."""


def main() -> int:
    os.environ["BARNABAS_PEERS"] = "required"
    BUILD.mkdir(exist_ok=True)
    results = {name: BUILD / f"interop-{name}.xml" for name in ("beside", "clients")}
    status = run(
        [
            Lane(
                name,
                (*paths, f"--junitxml={results[name]}"),
                timeout_s=TIMEOUT_S,
                marks=MARKS,
            )
            for name, paths in (
                ("beside", ("tests/interop",)),
                ("clients", ("tests", "--ignore=tests/interop")),
            )
        ],
        ["-v", *sys.argv[1:]],
    )
    interop_report.main(*results.values())
    return status


if __name__ == "__main__":
    sys.exit(main())
