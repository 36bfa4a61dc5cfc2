"""The processes that play seeds for whoever asked.

Each plays a few and ends: what they leave behind goes with it, instead of being looked for after each seed (a
tenth of its time). They are forked, where the system can do that, from a process that has nothing open and
has played a few seeds itself.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.pool import Pool
from threading import Thread

SEEDS_EACH = 20
"""What a process plays: each seed leaves 5 to 10 MB behind."""


def workers(jobs: int, tasks_each: int) -> Pool:
    """`jobs` processes at a time, each of which is replaced after `tasks_each` tasks."""
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        context.set_forkserver_preload(["barnabas.sim.journal", "barnabas.sim.warm"])
    return context.Pool(jobs, end_with_parent, maxtasksperchild=tasks_each)


def end_with_parent() -> None:
    """Begins a worker: where whoever asked is killed, nobody would hear what it finds."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, name="parent-watch", daemon=True).start()
