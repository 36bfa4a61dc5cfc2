"""The console's process beside the nodes of an ``up``; it ends with its parent, and its end is no fault of
theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from barnabas.host.system.processes import end_with_parent

STOP_S = 3.0


class ConsoleProcess:
    """``barnabas console`` for the cluster in `directory`; it prints its address itself."""

    def __init__(self, directory: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "barnabas", "console"),
            *("--data", str(directory), "--port", "0"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, report: Callable[[str], None]) -> None:
        """Start it. Where that fails `report` gets a sentence, and the cluster runs on."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 - nothing is locked in a child that only sets a signal
            )
        except OSError as error:
            report(f"the console cannot be started: {error.strerror}")

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
