"""The loaded modules of a Spark Python worker are left out of its garbage collections.

pyspark runs a full collection in a worker after each task, and in the driver's processes after each
question of the planner. With Arrow, numba and this package loaded one takes 40 ms of CPU time and frees
nothing of them: more than a small micro-batch takes to read. Objects that exist when new modules have been
used are therefore frozen.

Source: ``pyspark/daemon.py``; ``gc.freeze``.
"""

from __future__ import annotations

import gc
import os
import sys

IN_WORKER = "SPARK_REUSE_WORKER"
"""A variable that Spark sets in processes whose work ends with a collection."""
_modules = 0


def freeze_loaded() -> None:
    """At the end of a piece of work. Does nothing outside Spark's processes, or where no module was loaded
    since the last call."""
    global _modules
    if IN_WORKER in os.environ and len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.freeze()
