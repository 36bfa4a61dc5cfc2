"""``python -m tests.process.slow_opening GATE FILE``: a node whose logs take until the file `GATE` exists."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from barnabas.host.main import run_node
from barnabas.log.directories.log_directories import LogDirectories

PAUSE_S = 0.005


def wait_for(gate: Path) -> None:
    """A directory's logs are as many as it takes for `gate` to exist."""
    original = LogDirectories.open

    def opened(self: LogDirectories, between: Callable[[], None]) -> None:
        while not gate.exists():
            between()
            time.sleep(PAUSE_S)
        original(self, between)

    LogDirectories.open = opened  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    wait_for(Path(sys.argv[1]))
    sys.exit(run_node(sys.argv[2]))
