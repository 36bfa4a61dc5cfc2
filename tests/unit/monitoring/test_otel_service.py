"""The helper process of the export sends metrics as the page has them, and a span for each sampled trace."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from barnabas.monitoring.exposition import Exposition, labels_text
from barnabas.monitoring.otel.message import (
    TracedBatch,
    TracedRequest,
    metrics_message,
    traces_message,
)
from barnabas.monitoring.otel.page_text import families_of, histograms_of
from barnabas.monitoring.sources.requests import BOUNDS_S, SECONDS
from barnabas.monitoring.table import metrics
from barnabas.record.builder import build_batch
from barnabas.record.compression import Codec
from tests.otlp_receiver import OtlpReceiver, attributes_of

pytestmark = pytest.mark.slow  # OpenTelemetry's packages are loaded
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = (f"00-{TRACE}-{SPAN}-{flags}".encode() for flags in ("01", "00"))
HOSTILE = 'a"b\\c\nd,e="f"} 7'
BEGAN_MS, AT_MS = 1_000, 61_000


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    started = OtlpReceiver()
    yield started
    started.close()


@pytest.fixture
def service() -> Any:
    from barnabas.monitoring.otel.service import Service

    return Service()


def head(receiver: OtlpReceiver) -> dict[str, Any]:
    return {
        "endpoint": receiver.address,
        "resource": {"service.name": "barnabas"},
        "began_ms": BEGAN_MS,
        "at_ms": AT_MS,
    }


def page() -> Exposition:
    written = Exposition(metrics())
    written.add("kafka_brokers", 3)
    written.add("barnabas_loop_turns_total", 12)
    written.add("barnabas_scrape_seconds", 0.25)
    labels = labels_text({"consumergroup": HOSTILE, "topic": "t", "partition": "0"})
    written.add("kafka_consumergroup_lag{consumergroup,topic,partition}", 5, labels)
    for phase, counts in (("total", [1, 2, *[0] * 13]), ("local", [0] * 14 + [1])):
        own = labels_text({"request": "Produce", "phase": phase})
        written.add_histogram(SECONDS, BOUNDS_S, counts, 1.5, own)
    return written


def test_a_page_is_read_as_it_was_written() -> None:
    families = {family.name: family for family in families_of(page().text().decode())}
    [(_, labels, value)] = families["kafka_consumergroup_lag"].samples
    assert (labels["consumergroup"], value) == (HOSTILE, 5)
    first, second = histograms_of(families["barnabas_request_seconds"])
    assert (first.counts[:2], second.counts[-1], first.total) == ([1, 2], 1, 1.5)
    assert tuple(first.bounds) == BOUNDS_S and len(first.counts) == len(BOUNDS_S) + 1


def test_metrics_arrive_with_names_types_and_labels(receiver: OtlpReceiver, service: Any) -> None:
    assert service.answer(metrics_message(head(receiver), page().text())) == b""
    found = {metric.name: metric for metric in receiver.metrics}
    assert found["kafka_brokers"].gauge.data_points[0].as_int == 3
    assert found["barnabas_scrape_seconds"].gauge.data_points[0].as_double == 0.25
    turns = found["barnabas_loop_turns_total"].sum
    assert turns.is_monotonic and turns.data_points[0].as_int == 12
    assert turns.data_points[0].start_time_unix_nano == BEGAN_MS * 1_000_000
    assert turns.data_points[0].time_unix_nano == AT_MS * 1_000_000
    [lag] = found["kafka_consumergroup_lag"].gauge.data_points
    assert attributes_of(lag)["consumergroup"] == HOSTILE
    total, local = found["barnabas_request_seconds"].histogram.data_points
    assert (total.count, list(total.bucket_counts)[:3], total.sum) == (3, [1, 2, 0], 1.5)
    assert attributes_of(local) == {"request": "Produce", "phase": "local"}
    assert receiver.resources == [{"service.name": "barnabas"}]


def traced(batch: bytes, code: int = 0, base_offset: int = 40) -> TracedRequest:
    found = TracedBatch("orders", 2, code, base_offset, batch)
    return TracedRequest(100.0, 101.0, 103.0, 110.0, 110.5, 0.0, (found,))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_with_a_sampled_trace_have_a_span(
    receiver: OtlpReceiver, service: Any, codec: Codec
) -> None:
    records: list[Any] = [
        (None, b"a"),
        (None, b"b", [("traceparent", SAMPLED), ("tracestate", b"vendor=1")]),
        (None, b"c", [("traceparent", UNSAMPLED)]),
        (None, b"d", [("traceparent", b"nonsense \xff")]),
        (None, b"e", [("traceparent", None)]),
    ]
    batch = build_batch(records, timestamp_ms=1, codec=codec)
    refused = build_batch([(None, b"b", [("traceparent", SAMPLED)])], timestamp_ms=1)
    requests = [traced(batch), traced(b"\0" * len(batch)), traced(refused, 3, -1)]
    assert service.answer(traces_message(head(receiver), requests, 1_000.0)) == b""
    taken, failed = receiver.spans
    assert (taken.trace_id.hex(), taken.parent_span_id.hex()) == (TRACE, SPAN)
    assert taken.span_id.hex() != SPAN and taken.span_id != failed.span_id
    assert taken.trace_state == "vendor=1"
    assert (taken.name, taken.kind) == ("Produce orders", taken.SPAN_KIND_SERVER)
    assert (taken.start_time_unix_nano, taken.end_time_unix_nano) == (1_100_000_000, 1_110_500_000)
    attributes = attributes_of(taken)
    assert attributes["messaging.kafka.offset"] == 41
    assert attributes["messaging.destination.partition.id"] == "2"
    assert (attributes["barnabas.local_ms"], attributes["barnabas.remote_ms"]) == (2.0, 7.0)
    assert failed.status.code == failed.status.STATUS_CODE_ERROR
    assert attributes_of(failed)["error.type"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_requests_without_a_trace_send_nothing(receiver: OtlpReceiver, service: Any) -> None:
    batch = build_batch([(None, b"a")], timestamp_ms=1)
    assert service.answer(traces_message(head(receiver), [traced(batch)], 0.0)) == b""
    assert receiver.received == []


def test_a_receiver_that_refuses_is_named_with_its_reason(
    receiver: OtlpReceiver, service: Any
) -> None:
    receiver.status = HTTPStatus.BAD_REQUEST
    said = service.answer(metrics_message(head(receiver), page().text()))
    assert b"400" in said
    receiver.status = HTTPStatus.OK
    assert service.answer(metrics_message(head(receiver), page().text())) == b""


def test_large_pages_are_sent_in_portions(
    receiver: OtlpReceiver, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.monitoring.otel.service.POINTS_MAX", 10)
    written = Exposition(metrics())
    for index in range(25):
        labels = labels_text({"topic": "t", "partition": str(index)})
        written.add("kafka_topic_partition_replicas{topic,partition}", index, labels)
    assert service.answer(metrics_message(head(receiver), written.text())) == b""
    assert len(receiver.received) == 3
    values = [p.as_int for metric in receiver.metrics for p in metric.gauge.data_points]
    assert values == list(range(25))
