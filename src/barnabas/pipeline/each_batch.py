"""Exactly-once writes of queries in update mode, through ``foreachBatch``.

Spark lets a Python sink be written in append and complete mode only. Aggregates in update mode (a
changelog of what changed per micro-batch) go through ``foreachBatch`` instead, where a batch that
Spark runs again would be written again. :func:`publish_each_batch` gives ``foreachBatch`` a
function that names the write by application and batch id, so that it lands once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def publish_each_batch(
    options: Mapping[str, str], *, application: str, staging: str
) -> Callable[[DataFrame, int], None]:
    """A function for ``writeStream.foreachBatch``: append each micro-batch to a topic, once.

    `options` are those of ``format("barnabas")`` for writing. `application` names the write for good:
    it stays the same over restarts and belongs to one checkpoint and one write of each batch. A
    query with another checkpoint that uses the name ends with an error. `staging` is a directory, or
    a URI, that driver and executors share. In the checkpoint's directory is a good place: there the
    checkpoint is found, which shows whether a batch of the same number is the same batch.
    Elsewhere, `options` may say ``checkpointLocation``.
    """

    def publish(frame: DataFrame, batch: int) -> None:
        (
            frame.write.format("barnabas")
            .mode("append")
            .options(**options)
            .option("txnAppId", application)
            .option("txnVersion", str(batch))
            .option("stagingLocation", staging)
            .save()
        )

    return publish
