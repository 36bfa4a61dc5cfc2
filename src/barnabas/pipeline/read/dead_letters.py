"""Records whose value could not be decoded, as rows for a dead letter topic.

Owns the shape of a dead letter: the record's key and raw value, and where it comes from in headers of Kafka
Connect's names, so that tools for Connect's dead letter queues read them. A source cannot write them itself,
as its tasks may run twice; the query's sink writes them, in the batch that read them.

Source: KIP-298, Connect's ``DeadLetterQueueReporter``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HEADERS = (
    ("__connect.errors.topic", "topic"),
    ("__connect.errors.partition", "cast(`partition` as string)"),
    ("__connect.errors.offset", "cast(`offset` as string)"),
    ("__connect.errors.stage", "'VALUE_CONVERTER'"),
    ("__connect.errors.exception.message", "`_error`"),
)


def dead_letters(frame: DataFrame) -> DataFrame:
    """The bad records of a frame that was read with ``value.format``: columns key, value and headers, for
    ``format("barnabas")`` to write. The frame needs key, value, topic, partition, offset and _error."""
    headers = ", ".join(
        f"named_struct('key', '{name}', 'value', cast({value} as binary))"
        for name, value in _HEADERS
    )
    return frame.where("`_error` is not null").selectExpr(
        "key", "value", f"array({headers}) as headers"
    )
