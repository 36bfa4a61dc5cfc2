"""Jobs over Spark Connect: the client's session, and which jobs it can run.

A client is no driver: what a job keeps in its own (audit, mirror, tables whose files reading tasks write) is
refused. What becomes of a batch is :mod:`barnabas.pipeline.jobs.server_batch`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.job_file import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("grpc", "grpc_status", "google.rpc", "zstandard")
INSTALL = "pip install 'barnabas[spark,connect]'"


def is_connect(spark: Any) -> bool:
    """Whether the session is a client's."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def check_remote(job: Job) -> None:
    """Raises `PipelineError` with the reason, for a job that needs a driver of its own."""
    reasons = {
        "audit": "its tasks are Spark's RDDs, which Spark Connect does not have",
        "mirror": "it commits offsets beside each batch from the driver that runs it",
    }
    why = reasons.get(job.kind)
    if job.lands:
        why = "land = true gathers the files of reading tasks in the driver that runs the job"
    if why is not None:
        raise PipelineError(
            f"job {job.name} does not run over Spark Connect: {why}; run it with --master"
        )


def remote_session(remote: str) -> SparkSession:
    """A client of the server at `remote`, ``sc://host:port``. Raises `PipelineError`."""
    missing = [package for package in PACKAGES if not _is_installed(package)]
    if missing:
        raise PipelineError(f"Spark Connect needs {', '.join(missing)}: {INSTALL}")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        spark: SparkSession = SparkSession.builder.remote(remote).getOrCreate()
        _ = spark.version
    except (PySparkException, OSError, ValueError) as error:
        line = str(error).strip().splitlines()[0]
        raise PipelineError(f"Spark Connect at {remote} does not answer: {line}") from error
    return spark


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
