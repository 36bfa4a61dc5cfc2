"""The lag of all queries of a session, by a listener: each in a consumer group named by its query id.

A source's reader does not know its query; the driver's listener does. It gets the progress of each
micro-batch when that is committed, and commits its end offsets (:mod:`barnabas.pipeline.read.lag`). Queries
of Spark's own Kafka source are shown too: their offsets have the same form.

Source: Spark's ``StreamingQueryListener``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from barnabas.pipeline.options import cluster_options
from barnabas.pipeline.read.lag import PREFIX, commit_offsets, offsets_in_progress


class LagListener(StreamingQueryListener):  # type: ignore[misc]
    """``spark.streams.addListener(LagListener({"kafka.bootstrap.servers": ...}))``: the group is
    `prefix` and the query id."""

    def __init__(self, options: Mapping[str, str], prefix: str = PREFIX) -> None:
        self._cluster = cluster_options(options)
        self._prefix = prefix

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is committed yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress: Any = event.progress
        cluster = self._cluster.connect()
        for source in progress.sources:
            offsets = offsets_in_progress(source.endOffset)
            commit_offsets(cluster, f"{self._prefix}{progress.id}", offsets)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """The last batch's offsets are committed already."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The group stays as long as its offsets do: the lag of a query that ended grows."""
