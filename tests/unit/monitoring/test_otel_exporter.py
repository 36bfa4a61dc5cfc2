"""A node hands pages and chosen requests to the export's helper process, and keeps nothing else for it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.config.definition import ConfigError
from barnabas.config.node import NodeConfig
from barnabas.monitoring.exposition import Exposition
from barnabas.monitoring.otel import settings as otel
from barnabas.monitoring.otel.exporter import SERVICE, TRACES_INTERVAL_MS, OtelExporter
from barnabas.monitoring.otel.message import METRICS, TRACES, decoded
from barnabas.monitoring.otel.settings import OtelSettings, otel_settings
from barnabas.monitoring.otel.traced_requests import BATCH_BYTES_MAX, OPEN_MAX, TracedRequests
from barnabas.monitoring.scrape import Scrapes
from barnabas.monitoring.sources.requests import RequestSource
from barnabas.ports import HelperDied
from barnabas.wire.api_table import ApiKey
from barnabas.wire.request_timing import RequestTiming
from tests.unit.config.test_node import COMBINED
from tests.unit.group.world import FakePorts
from tests.unit.monitoring.test_requests import BATCH, image, produced, source

__all__ = ["image", "source"]
INTERVAL_MS = 60_000


class FakeHelper:
    """Keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], memoryview]] = []
        self.answers = b""
        self.is_closed = False

    def call(self, service: str, request: bytes) -> bytes:
        assert service == SERVICE
        self.messages.append(decoded(request))
        return self.answers

    def close(self) -> None:
        self.is_closed = True

    @property
    def kinds(self) -> list[str]:
        return [meta["kind"] for meta, _ in self.messages]


@pytest.fixture
def ports() -> Any:
    found: Any = FakePorts()
    found.export_helper = FakeHelper()
    return found


def config_of(endpoint: str) -> NodeConfig:
    return NodeConfig.from_properties({**COMBINED, "otel.endpoint": endpoint})


def exporter_of(ports: Any, traced: TracedRequests | None = None) -> OtelExporter:
    def brokers(page: Exposition) -> Any:
        page.add("kafka_brokers", 3)
        yield

    scrapes = Scrapes(ports, lambda: [brokers])
    settings = OtelSettings("http://receiver", INTERVAL_MS, 1.0)
    started = OtelExporter(ports, settings, scrapes, traced, lambda: {"service.name": "barnabas"})
    started.begin()
    return started


def observe(traced: TracedRequests, ports: Any, *, is_sent: bool = True) -> None:
    timing = RequestTiming(traced, ApiKey.PRODUCE, ports.now, ports.now)
    request, response = produced(0)
    timing.answered(request, response, ports.now)
    if is_sent:
        RequestTiming.sent([timing], ports.now)


def test_metrics_are_exported_at_the_interval(ports: Any) -> None:
    exporter = exporter_of(ports)
    ports.advance(INTERVAL_MS - 1)
    assert ports.export_helper.kinds == []
    ports.advance(1)
    [(meta, page)] = ports.export_helper.messages
    assert (meta["kind"], meta["endpoint"]) == (METRICS, "http://receiver")
    assert meta["at_ms"] - meta["began_ms"] == INTERVAL_MS
    assert b"kafka_brokers 3\n" in bytes(page)
    ports.advance(INTERVAL_MS)
    assert ports.export_helper.kinds == [METRICS, METRICS]
    exporter.close()
    ports.advance(10 * INTERVAL_MS)
    assert len(ports.export_helper.messages) == 2 and ports.export_helper.is_closed


def test_chosen_requests_are_exported_within_seconds(ports: Any, source: RequestSource) -> None:
    traced = TracedRequests(source, 1.0)
    exporter_of(ports, traced)
    observe(traced, ports)
    ports.advance(TRACES_INTERVAL_MS)
    [(meta, body)] = ports.export_helper.messages
    assert (meta["kind"], bytes(body)) == (TRACES, BATCH)
    [request] = meta["requests"]
    assert request["batches"] == [["orders", 0, 0, 0, len(BATCH)]]
    ports.advance(TRACES_INTERVAL_MS)
    assert ports.export_helper.kinds == [TRACES]


def test_one_request_in_a_fixed_number_is_chosen(ports: Any, source: RequestSource) -> None:
    traced = TracedRequests(source, 0.25)
    for _ in range(40):
        observe(traced, ports)
    assert len(traced.take()) == 10
    assert traced.take() == []


def test_requests_that_are_never_answered_are_bounded(ports: Any, source: RequestSource) -> None:
    traced = TracedRequests(source, 1.0)
    for _ in range(2 * OPEN_MAX):
        observe(traced, ports, is_sent=False)
    assert len(traced._open) == OPEN_MAX
    assert traced.take() == [] and not traced._open


def test_large_batches_are_not_kept(
    ports: Any, source: RequestSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(BATCH) < BATCH_BYTES_MAX
    monkeypatch.setattr("barnabas.monitoring.otel.traced_requests.BATCH_BYTES_MAX", len(BATCH) - 1)
    traced = TracedRequests(source, 1.0)
    observe(traced, ports)
    assert traced.take() == []


def test_a_problem_is_logged_once_and_its_end_too(ports: Any) -> None:
    exporter_of(ports)
    ports.export_helper.answers = b"no receiver is there"
    ports.advance(3 * INTERVAL_MS)
    ports.export_helper.answers = b""
    ports.advance(2 * INTERVAL_MS)
    events = [event for _, event, _ in ports.lines]
    assert events == ["otel.export_failed", "otel.export_resumed"]
    assert ports.lines[0][2]["why"] == "no receiver is there"


def test_a_helper_that_dies_is_a_problem_of_one_export(ports: Any) -> None:
    exporter = exporter_of(ports)
    ports.jobs = []
    ports.run = lambda queue, job, done: done(HelperDied("it ended with status 1"))
    ports.advance(INTERVAL_MS)
    assert [event for _, event, _ in ports.lines] == ["otel.export_failed"]
    exporter.close()


def test_a_node_without_the_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("http://127.0.0.1:4318/")
    assert otel_settings(config) == OtelSettings("http://127.0.0.1:4318", 60_000, 0.0)
    monkeypatch.setattr(otel, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'barnabas\[otel\]'"):
        otel_settings(config)


@pytest.mark.parametrize("text", ["127.0.0.1:4318", "grpc://h:4317", "http://", "http://h?x"])
def test_an_endpoint_is_an_address_of_http(text: str) -> None:
    with pytest.raises(ConfigError, match=r"otel\.endpoint"):
        otel_settings(config_of(text))
