"""The Spark session of a job, and of programs that want one like it.

Owns Spark's settings and what keeps a session from starting, as one sentence.
"""

from __future__ import annotations

import os
import shutil
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.interpreter import IN_CONFIGURATION, prefer_own_for_all
from barnabas.pipeline.jobs.job_file import Job
from barnabas.pipeline.jobs.quiet_jvm import QuietJvm
from barnabas.pipeline.places import s3_settings
from barnabas.pipeline.warm_up import in_background
from barnabas.pipeline.workers import daemon
from barnabas.pipeline.workers.compiled_pyspark import compiled_pyspark, is_local
from barnabas.pipeline.workers.masters import check_master, why_not_started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PANDAS = "PySpark does not yet fully support pandas"
SILENT = "OFF"
"""The log level at which Spark's JVM says nothing at all, from its start."""


def missing_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    if shutil.which(java) is None:
        return (
            f"Spark needs Java 17 or newer, and {java} is not there: install one or set JAVA_HOME"
        )
    return None


def session_of(job: Job, master: str, settings: dict[str, str], log_level: str) -> SparkSession:
    """A session for the job, whose workers begin with this package loaded; `settings` go before what is set
    here. Raises `PipelineError`."""
    settings = {"spark.python.daemon.module": daemon.MODULE, **settings}
    return session_with(job.name, master, settings, log_level)


def session_with(name: str, master: str, settings: dict[str, str], log_level: str) -> SparkSession:
    """The session of `session_of`, by the application's name."""
    missing = missing_java()
    if missing is not None:
        raise PipelineError(missing)
    check_master(master, settings)
    if is_local(master):
        in_background()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    ours = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.ui.showConsoleProgress": "false",
        # A Python process may be slow to come up on a busy machine; 15 s is Spark's own.
        "spark.python.authenticate.socketTimeout": "60s",
    }
    if master.startswith("local"):
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
    if IN_CONFIGURATION not in settings:
        prefer_own_for_all()
    settings = s3_settings.shared_out({**ours, **settings}, os.environ)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    jvm = QuietJvm()
    try:
        with compiled_pyspark() if is_local(master) else nullcontext():
            if log_level == SILENT:
                warnings.filterwarnings("ignore", PANDAS, FutureWarning)
                jvm.start({**settings, "spark.master": master, "spark.app.name": name})
            spark = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        said = "".join(line for line in jvm.kept if "WARN" not in line).strip()
        raise why_not_started(master, PipelineError(f"{error}\n{said}")) from error
    spark.sparkContext.setLogLevel(log_level)
    return spark
