"""Topics in Spark: ``format("barnabas")`` for batch and streaming, reading and writing.

:mod:`datasource` is what Spark sees. Reading: :mod:`source` plans (with :mod:`offset_resolution` and
:mod:`offsets`), :mod:`range_reader` is a task's work, :mod:`barnabas.record.columnar` turns bytes into
Arrow. Writing: :mod:`sink` is the protocol of tasks and driver, :mod:`batch_encoder` makes batches,
:mod:`commit_log` and :mod:`stores` remember, :mod:`admission` compares what a query asks for with the
commit log (with :mod:`checkpoint`), :mod:`publisher` sends, :mod:`recut` makes smaller batches of what a
topic refused. :mod:`cluster_client` reaches the brokers by :mod:`barnabas.client`. :mod:`each_batch` and
:mod:`warm_up` are for users.

Importing this package, before a session starts, lets Spark find the format in an environment that is not
activated (:mod:`interpreter`): it may set one environment variable and loads no library. It also names
a folder for machine code where numba finds none.

Needs the extra ``[spark]``. Sources: Spark's Python Data Source API (4.3), the options of Spark's
Kafka connector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.host.own_folder import own_folder
from barnabas.pipeline.interpreter import prefer_own
from barnabas.record import kernel_cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

prefer_own()
kernel_cache.fall_back_to(own_folder)


def session(
    master: str = "local[*]", *, name: str = "barnabas", log_level: str = "OFF", **settings: str
) -> SparkSession:
    """A session as jobs have it: UDFs and sources run by this Python, times are UTC, and Spark says nothing
    unless `log_level` is ``WARN`` or lower. `settings` are Spark's, by ``**{"spark.ui.enabled": "false"}``.
    Raises `PipelineError`."""
    from barnabas.pipeline.jobs.job_session import session_with

    return session_with(name, master, settings, log_level)
