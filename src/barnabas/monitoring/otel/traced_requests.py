"""Chooses Produce requests whose records may carry a trace, and keeps their batches and times.

One request in a fixed number is chosen, and only its batches are copied; nothing is decoded here. The helper
process reads the records, and drops requests without a trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.monitoring.otel.message import TracedBatch, TracedRequest
from barnabas.monitoring.sources.requests import RequestSource
from barnabas.record.batch import HEADER_SIZE
from barnabas.wire.messages.produce_request import ProduceRequest
from barnabas.wire.messages.produce_response import ProduceResponse
from barnabas.wire.request_timing import RequestTiming
from barnabas.wire.schema import Message

BATCH_BYTES_MAX = 256 * 1024
"""Larger batches are not searched."""
KEPT_BYTES_MAX = 4 * 1024 * 1024
"""The batches of all requests that wait for the next export; further requests are not chosen."""
OPEN_MAX = 256
"""Chosen requests whose response is not sent yet; further requests are not chosen."""


class TracedRequests:
    """The observer of a node whose requests are traced: it counts as `source` does."""

    def __init__(self, source: RequestSource, ratio: float) -> None:
        """`ratio`: the share of Produce requests that are chosen."""
        self._source = source
        self._ratio = ratio
        self._credit = 0.0
        self._open: dict[RequestTiming, tuple[TracedBatch, ...]] = {}
        self._done: list[TracedRequest] = []
        self._kept_bytes = 0

    def take(self) -> list[TracedRequest]:
        """The requests whose responses were sent since the last call. Requests whose connection ended before
        are forgotten."""
        done, self._done, self._open, self._kept_bytes = self._done, [], {}, 0
        return done

    def answered(self, timing: RequestTiming, request: Message, response: Message | None) -> None:
        self._source.answered(timing, request, response)
        if isinstance(request, ProduceRequest) and self._is_chosen():
            assert response is None or isinstance(response, ProduceResponse)
            batches = tuple(self._batches(request, response))
            if batches:
                self._open[timing] = batches
                self._kept_bytes += sum(len(batch.data) for batch in batches)

    def sent(self, timings: Sequence[RequestTiming], now_ms: float) -> None:
        self._source.sent(timings, now_ms)
        if self._open:
            for timing in timings:
                batches = self._open.pop(timing, None)
                if batches is not None:
                    self._done.append(_with_times(timing, now_ms, batches))

    def _is_chosen(self) -> bool:
        self._credit += self._ratio
        if self._credit < 1:
            return False
        self._credit -= 1
        return self._kept_bytes < KEPT_BYTES_MAX and len(self._open) < OPEN_MAX

    def _batches(
        self, request: ProduceRequest, response: ProduceResponse | None
    ) -> list[TracedBatch]:
        answers = {
            (answered.name, answered.topic_id, answer.index): answer
            for answered in (() if response is None else response.responses)
            for answer in answered.partition_responses
        }
        found = []
        for topic in request.topic_data:
            name = self._source.name_of_topic(topic.name, topic.topic_id)
            for data in topic.partition_data:
                records = data.records
                if isinstance(records, list) or records is None or not name:
                    continue
                if not HEADER_SIZE < len(records) <= BATCH_BYTES_MAX:
                    continue
                answer = answers.get((topic.name, topic.topic_id, data.index))
                code, base = (0, -1) if answer is None else (answer.error_code, answer.base_offset)
                found.append(TracedBatch(name, data.index, code, base, bytes(records)))
        return found


def _with_times(
    timing: RequestTiming, now_ms: float, batches: tuple[TracedBatch, ...]
) -> TracedRequest:
    return TracedRequest(
        timing.arrived_ms,
        timing.began_ms,
        timing.handled_ms,
        timing.answered_ms,
        now_ms,
        timing.throttle_ms,
        batches,
    )
