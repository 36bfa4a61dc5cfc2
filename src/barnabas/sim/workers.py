"""The processes that play seeds for whoever asked."""

from __future__ import annotations

import multiprocessing
import os
from threading import Thread


def end_with_parent() -> None:
    """Begins a worker: where whoever asked is killed, nobody would hear what it finds."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, name="parent-watch", daemon=True).start()
