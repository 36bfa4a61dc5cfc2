"""A Spark session whose driver listens on loopback only, for tests and benchmarks."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipeline.workers.compiled_pyspark import compiled_pyspark, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2,3]"
"""Of the session that tests share: a task may fail twice."""
LOOPBACK = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # A worker may be slow to come up where nodes and clients share two cores with it.
    "spark.python.authenticate.socketTimeout": "120s",
}


def loopback_session(master: str, settings: dict[str, str], log_level: str = "OFF") -> SparkSession:
    """Start a session. Its executors use this process's Python."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).config(map={**LOOPBACK, **settings})
    with compiled_pyspark() if is_local(master) else nullcontext():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session


def tests_session(directory: Path) -> SparkSession:
    """The session that all tests of one process share, whichever of them comes first. A session that some
    test of users' fixtures has started cannot run a failed task again: it is stopped."""
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is not None and found.sparkContext.master != MASTER:
        found.stop()
    settings = {
        "spark.app.name": "tests",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(directory / "tmp"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    return loopback_session(MASTER, settings)
