"""The meaning of a path without a scheme: this machine's disk, Spark's default store, or nothing on a
cluster.

In a local session a bare path is of this machine. On a cluster each machine has a disk of its own, so a bare
path is refused, with the remedy: ``file:`` says that every machine mounts the folder, and has that proven. If
Spark's ``fs.defaultFS`` is a store, a bare path is in it, for Spark and for Python.

Tasks find Spark's settings in their local properties, where Spark puts those of the session. A default file
system that only ``core-site.xml`` names is known to a job's driver, not to tasks: there the path is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.options import SCHEME, SinkOptions
from barnabas.pipeline.workers.compiled_pyspark import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "spark.master"
DEFAULT_STORE = "spark.hadoop.fs.defaultFS"
THIS_MACHINE = "file"


class Properties(Protocol):
    """Spark's ``TaskContext``, as far as it is asked here."""

    def getLocalProperty(self, key: str) -> str | None: ...


def is_bare(place: str | None) -> bool:
    return bool(place) and SCHEME.match(place or "") is None


def other_store(default: str | None) -> str:
    """The default file system as ``scheme://authority``; empty where it is this machine's."""
    found = urlsplit(default or "")
    if not found.scheme or found.scheme == THIS_MACHINE:
        return ""
    return f"{found.scheme}://{found.netloc}"


def resolved(place: str, what: str, *, master: str, store: str) -> str:
    """The place with its scheme. `what` names its option, `store` is of `other_store`. Raises `StagingError`
    for a bare path on a cluster."""
    if not is_bare(place):
        return place
    if store:
        return store + place
    if is_local(master):
        return place
    raise StagingError(
        f"{what} {place} is a bare path, and each machine of {master} has a disk of its own: write"
        f" file://{place} where every machine mounts it, or a place in a store, by s3a://, abfss://, gs:// or"
        " hdfs://"
    )


def store_for_task(options: SinkOptions, context: Properties | None) -> str:
    """The place of a writer's bare paths: a store, or empty for this machine. For tasks. Raises
    `StagingError`."""
    if context is None or not (is_bare(options.staging) or is_bare(options.checkpoint)):
        return ""
    store = other_store(context.getLocalProperty(DEFAULT_STORE))
    # Where no option names it, the staging location is below the checkpoint.
    check_in_task(options.checkpoint, "checkpointLocation", context, store)
    check_in_task(options.staging, "stagingLocation", context, store)
    return store


def check_in_task(place: str | None, what: str, context: Properties, store: str = "") -> None:
    """Raises `StagingError` for a bare path on a cluster."""
    if place:
        resolved(place, what, master=context.getLocalProperty(MASTER) or "local", store=store)


def options_in(options: SinkOptions, store: str) -> SinkOptions:
    """The options with bare paths in `store`."""
    if not store:
        return options
    named = [
        store + place if place and is_bare(place) else place
        for place in (options.staging, options.checkpoint)
    ]
    return replace(options, staging=named[0], checkpoint=named[1])


def place_for_session(spark: SparkSession, place: str, what: str) -> str:
    """The place of `resolved`, by a session's master and default file system. For drivers."""
    if not is_bare(place):
        return place
    if type(spark).__module__.startswith("pyspark.sql.connect"):  # a client has no JVM
        store, master = spark.conf.get(DEFAULT_STORE, ""), spark.conf.get(MASTER, "local")
        return resolved(place, what, master=str(master), store=other_store(store))
    java: Any = spark.sparkContext._jsc
    store = other_store(java.hadoopConfiguration().get("fs.defaultFS"))
    return resolved(place, what, master=str(spark.sparkContext.master), store=store)
