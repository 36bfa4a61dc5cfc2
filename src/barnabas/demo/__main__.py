"""``python -m barnabas.demo``: see :mod:`barnabas.demo`. Exit status 0 if all figures agree."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from barnabas.demo.flights import data_file
from barnabas.demo.outcome import Check
from barnabas.demo.progress import progress_for, show_checks
from barnabas.demo.spark_process import JobFailedError, missing_java
from barnabas.demo.story import DemoSettings, DemoStory, StoryError
from barnabas.pipeline.errors import PipelineError
from barnabas.testing.cluster import ClusterError


def settings_from(arguments: list[str]) -> DemoSettings:
    parser = argparse.ArgumentParser(prog="python -m barnabas.demo", description=__doc__)
    parser.add_argument("--data", type=Path, help="keep everything in this new directory")
    parser.add_argument("--rate", type=float, default=12_000, help="flights per second at most")
    parser.add_argument("--rows", type=int, help="stream only so many flights")
    parser.add_argument(
        "--bootstrap", help="host:port of a running cluster; nothing is started or killed then"
    )
    parser.add_argument(
        "--secure", action="store_true", help="TLS and SASL on every listener, for Spark too"
    )
    parser.add_argument(
        "--console",
        action="store_true",
        help="serve pages about the nodes, too; on a terminal they stay until Enter",
    )
    given = parser.parse_args(arguments)
    if given.secure and given.bootstrap:
        parser.error("--secure is for a cluster that the demo starts itself, without --bootstrap")
    return DemoSettings(
        directory=given.data or Path(tempfile.mkdtemp(prefix="barnabas-demo-")),
        keep=given.data is not None,
        rate=given.rate,
        rows=given.rows,
        bootstrap=given.bootstrap,
        secure=given.secure,
        console=given.console,
    )


def main(arguments: list[str]) -> int:
    settings = settings_from(arguments)
    sentence = missing_java()
    if sentence is not None:
        sys.stderr.write(sentence + "\n")
        if not settings.keep:
            settings.directory.rmdir()
        return 1
    status = 1
    try:
        data_file()
        progress = progress_for()
        with DemoStory(settings, progress) as story:
            try:
                checks = story.run()
            finally:
                progress.close()
            status = tell(checks)
            if story.pages is not None and sys.stdin.isatty() and sys.stdout.isatty():
                with contextlib.suppress(EOFError):
                    input(f"{story.pages}/events shows why. Enter stops the nodes. ")
    except (StoryError, JobFailedError, PipelineError, ClusterError, FileNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    if status == 0 and not settings.keep:
        shutil.rmtree(settings.directory, ignore_errors=True)
    else:
        sys.stdout.write(f"logs and data: {settings.directory}\n")
    return status


def tell(checks: Sequence[Check]) -> int:
    """Print the outcome. Returns the exit status."""
    show_checks(checks)
    wrong = [check.claim for check in checks if not check.holds]
    if wrong:
        sys.stdout.write(f"differs: {', '.join(wrong)}\n")
        return 1
    sys.stdout.write("Every figure agrees: each flight landed exactly once.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
