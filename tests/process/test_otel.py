"""A node exports its metrics, and a span for a record whose client traces it, to a receiver of OTLP."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from barnabas.config.properties import parse_properties
from tests.otlp_receiver import OtlpReceiver, attributes_of
from tests.process.launch import PATIENCE_S, wait_until
from tests.process.test_node import format_storage, write_properties

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
EXPORT_WAITS = 4
"""The helper has a low priority: on a busy machine it loads OpenTelemetry's packages slowly."""
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    started = OtlpReceiver()
    yield started
    started.close()


def test_a_node_exports_metrics_and_traces(tmp_path: Path, receiver: OtlpReceiver) -> None:
    file = write_properties(
        tmp_path,
        otel_endpoint=receiver.address,
        otel_metrics_interval_ms="1000",
        otel_traces_sample_ratio="1",
        num_partitions="2",
    )
    format_storage(file)
    node = subprocess.Popen([sys.executable, "-m", "barnabas.host.main", str(file)])
    try:
        produce_traced(parse_properties(file.read_text())["listeners"].split(",")[0])
        assert receiver.arrived.wait(EXPORT_WAITS * PATIENCE_S), "nothing arrives"
        wait_until(lambda: bool(receiver.spans), "no span arrives")
        wait_until(lambda: bool(receiver.metrics), "no metric arrives")
        node.send_signal(signal.SIGTERM)
        assert node.wait(PATIENCE_S) == 0
    finally:
        node.kill()
        node.wait()
    [span] = receiver.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
    assert span.name == "Produce traced" and span.end_time_unix_nano > span.start_time_unix_nano
    assert attributes_of(span)["messaging.kafka.offset"] == 0
    assert {"kafka_brokers", "kafka_log_log_size", "barnabas_request_seconds"} <= {
        metric.name for metric in receiver.metrics
    }
    assert {resource["barnabas.node.id"] for resource in receiver.resources} == {"1"}


def produce_traced(listener: str) -> None:
    """One record with a trace, and one without."""
    failures: list[str] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": listener.removeprefix("PLAINTEXT://"), "log_level": 0, "linger.ms": 0}
    )
    for headers in ([], [("traceparent", f"00-{TRACE}-{SPAN}-01")]):
        producer.produce(
            "traced",
            b"v",
            headers=headers,
            partition=0 if headers else 1,
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert not failures
