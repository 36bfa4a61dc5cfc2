"""The micro-batch of a job over Spark Connect: a function that the server calls.

Spark pickles it, and runs it in a Python process of the server's, which has this package in the same version.

Source: Spark Connect's ``foreachBatch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import barnabas
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.jobs.job_file import Job, Query
from barnabas.pipeline.jobs.query_run import QueryRun, WriteBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ServerBatch:
    """The server's work on a micro-batch: each sink of the query gets it once."""

    def __init__(self, job: Job, query: Query) -> None:
        self._job = job
        self._query = query
        self._version = barnabas.__version__
        self._writes: Sequence[WriteBatch] | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
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
            for write in self._writes:
                write(kept, batch)
        finally:
            if kept is not frame:
                kept.unpersist()
