"""Proof that checkpoint and staging are one place for the driver and each executor, before the first write.

Two looks, once for each worker process, so that executors which join later are proven too:

* *The driver's file, by the executor.* Spark's driver has written the query's id into ``metadata`` of the
  checkpoint before the first batch; the task finds it there by the same path or URI. Where it does not, the
  disk is not shared, or Spark resolves a bare path by its default file system and Python does not.
* *The executor's file, by the driver.* The first task of a process stages its rows in a file, however few
  they are, and the driver reads it before it publishes anything
  (:func:`barnabas.pipeline.write.staged_task.check_staged`).

A checkpoint that Python cannot open (``oss:``) is not looked at; its staging location is elsewhere, and is.
"""

from __future__ import annotations

import json
import os
import re
import socket

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.places.stores import open_store

METADATA = "metadata"
QUERY_ID = "sql.streaming.queryId"
"""Spark's local property."""
_looked: set[tuple[str, str]] = set()
_staged: set[str] = set()


def this_executor() -> str:
    """Names the executor of this worker process: Spark gives each one a working directory of its own."""
    return f"executor on {socket.gethostname()} (working directory {os.getcwd()})"


def check_checkpoint(checkpoint: str | None, query: str | None) -> None:
    """Find what Spark's driver wrote in the checkpoint of `query`, an id. Raises `StagingError`."""
    if not checkpoint or not query or (checkpoint, query) in _looked:
        return
    try:
        store = open_store(checkpoint)
    except StagingError:
        return  # one of Hadoop's file systems
    try:
        found = json.loads(store.read(METADATA)).get("id")
    except FileNotFoundError as error:
        raise StagingError(
            f"{this_executor()} does not find {METADATA} in checkpointLocation {checkpoint}, which Spark's"
            f" driver wrote there. {remedy(checkpoint)}"
        ) from error
    except (OSError, ValueError, AttributeError):
        return  # what cannot be read, or is being written, says nothing
    if found == query:
        _looked.add((checkpoint, query))


def remedy(place: str) -> str:
    """The remedy that makes a place one for all."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", place):
        return "It must name one place that driver and executors share"
    return (
        "Name a place that driver and executors share: a mounted directory as file:///path, or"
        " hdfs://host/path, s3://bucket/path. A bare path is on each machine's own disk, and for Spark in its"
        " default file system (fs.defaultFS), which Python does not go by"
    )


def is_first_of_process(staging: str) -> bool:
    """Whether no task of this process has staged a file there."""
    return staging not in _staged


def has_staged(staging: str) -> None:
    _staged.add(staging)
