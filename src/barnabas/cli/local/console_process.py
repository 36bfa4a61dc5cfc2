"""The console's process beside the nodes of an ``up``; it ends with its parent, and its end is no fault of
theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from barnabas.host.system.processes import end_with_parent

STOP_S = 3.0
ADDRESS_PREFIX = "console: "
"""The line in which the console says its address begins with this."""


class ConsoleProcess:
    """``barnabas console`` for the cluster in `directory`. It prints its address itself: to the file
    `output`, else to the parent's standard output."""

    def __init__(self, directory: Path, output: Path | None = None) -> None:
        self._command = [
            *(sys.executable, "-m", "barnabas", "console"),
            *("--data", str(directory), "--port", "0"),
        ]
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, report: Callable[[str], None]) -> None:
        """Start it. Where that fails `report` gets a sentence, and the cluster runs on."""
        try:
            with ExitStack() as stack:
                output = self._output
                written = None if output is None else stack.enter_context(output.open("wb"))
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=written,
                    start_new_session=True,  # Ctrl-C is for the parent
                    preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 - nothing is locked in a child that only sets a signal
                )
        except OSError as error:
            report(f"the console cannot be started: {error.strerror}")

    @property
    def address(self) -> str | None:
        """The address that is in `output`; None before the process takes connections."""
        try:
            text = "" if self._output is None else self._output.read_text(errors="replace")
        except FileNotFoundError:
            return None
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        said = [line for line in lines if line.startswith(ADDRESS_PREFIX)]
        return said[0].removeprefix(ADDRESS_PREFIX).strip().rstrip("/") if said else None

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def stop(self) -> None:
        """End it; killed if it does not end within `STOP_S`."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
