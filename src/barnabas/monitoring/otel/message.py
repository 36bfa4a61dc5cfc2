"""A message to the helper process: one line of JSON, and the bytes that it describes.

The helper imports this too, so it imports nothing of the broker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

METRICS, TRACES = "metrics", "traces"


class TracedBatch(NamedTuple):
    """One batch of a chosen request, and what became of it."""

    topic: str
    partition: int
    error_code: int
    base_offset: int
    data: bytes


class TracedRequest(NamedTuple):
    """A chosen request. The times are the node's clock in ms: began, handled, answered, sent."""

    arrived_ms: float
    began_ms: float
    handled_ms: float
    answered_ms: float
    sent_ms: float
    throttle_ms: float
    batches: tuple[TracedBatch, ...]


def metrics_message(head: Mapping[str, Any], page: bytes) -> bytes:
    """`page`: a scrape in Prometheus' text format."""
    return _encoded({**head, "kind": METRICS}, [page])


def traces_message(
    head: Mapping[str, Any], requests: Sequence[TracedRequest], wall_offset_ms: float
) -> bytes:
    """`wall_offset_ms`: what the clock of the requests lacks to be ms since 1970-01-01 UTC."""
    described = [
        {
            **{name: value for name, value in request._asdict().items() if name != "batches"},
            "batches": [(*batch[:-1], len(batch.data)) for batch in request.batches],
        }
        for request in requests
    ]
    meta = {**head, "kind": TRACES, "wall_offset_ms": wall_offset_ms, "requests": described}
    return _encoded(meta, [batch.data for request in requests for batch in request.batches])


def _encoded(meta: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
    return b"".join([json.dumps(meta).encode(), b"\n", *parts])


def decoded(message: bytes) -> tuple[dict[str, Any], memoryview]:
    """The line, and what is behind it."""
    end = message.index(b"\n")
    return json.loads(message[:end]), memoryview(message)[end + 1 :]
