"""Jobs over Spark Connect: what a client asks of a server, and what becomes of a batch there.

Owns `ServerBatch`, the function that the server calls for each micro-batch of a query. Spark pickles it, and
runs it in a Python process of the server's, which has this package in the same version. A client is no
driver: what a job keeps in its own (audit, mirror, tables whose files reading tasks write) is refused.

Source: Spark Connect's ``foreachBatch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.job_file import Job, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    missing = [each for each in PACKAGES if not _is_installed(each)]
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


class ServerBatch:
    """What the server does with a micro-batch: each sink of the query gets it once."""

    def __init__(self, job: Job, query: Query, version: str) -> None:
        self._job = job
        self._query = query
        self._version = version
        self._writes: Sequence[Any] | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        import barnabas
        from barnabas.pipeline.jobs.query_run import QueryRun

        if barnabas.__version__ != self._version:
            raise PipelineError(
                f"the server has barnabas {barnabas.__version__}, and the client {self._version}:"
                " install the same version"
            )
        if self._writes is None:
            run = QueryRun(self._job, self._query, frame.sparkSession, None)
            self._writes = run.writes()
        kept = frame.persist() if len(self._writes) > 1 else frame
        try:
            for each in self._writes:
                each(kept, batch)
        finally:
            if kept is not frame:
                kept.unpersist()
