"""The helper process's side of the export: encodes what a node hands over, and sends it by OTLP over HTTP.

Metrics keep their names and labels. A Produce request becomes one span for each of its records whose header
``traceparent`` is sampled: a child of the client's span, from the request's arrival to its answer. The time
of each phase and the record's offset are attributes.

Source: the OpenTelemetry protocol 1.x, W3C Trace Context, OpenTelemetry's conventions for messaging.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode

from barnabas.monitoring.metric import MetricType
from barnabas.monitoring.otel.message import METRICS, decoded
from barnabas.monitoring.otel.page_text import Family, families_of, histograms_of
from barnabas.record.batch import CorruptBatchError, iterate
from barnabas.record.decode import Record, records_of
from barnabas.wire.errors import ErrorCode

POINTS_MAX = 10_000
"""Values of one request to the receiver; some 2 MB."""
SPANS_MAX = 64
"""Spans of one batch: further records of it have none."""
DECOMPRESSED_BYTES_MAX = 8 * 1024 * 1024
NS_PER_MS = 1_000_000
PHASES = ("queue", "local", "remote", "throttle", "send")
NOT_TAKEN = "the receiver did not take it"
UNKNOWN: Any = None
SCOPE = InstrumentationScope("barnabas")
_CUMULATIVE = AggregationTemporality.CUMULATIVE


def serve(disk: object, secret: bytes) -> Callable[[bytes], bytes]:
    """The service as the helper process loads it. An answer is the reason of a failure, or empty."""
    return Service().answer


class Service:
    """The exporters of one receiver, and the first thing that one of them complained of."""

    def __init__(self) -> None:
        self._why = ""
        self._exporters: dict[tuple[type, str], Any] = {}
        self._ids = RandomIdGenerator()
        self._propagator = TraceContextTextMapPropagator()
        logger = logging.getLogger("opentelemetry")
        logger.propagate = False  # standard error is the node's log
        logger.addHandler(_Listener(self._note))

    def _note(self, why: str) -> None:
        self._why = self._why or why

    def answer(self, message: bytes) -> bytes:
        self._why = ""
        try:
            meta, body = decoded(message)
            took = self._take_metrics if meta["kind"] == METRICS else self._take_traces
            return b"" if took(meta, body) else (self._why or NOT_TAKEN).encode()
        except Exception as error:  # noqa: BLE001 - the process continues whatever one export raises
            return f"{type(error).__name__}: {error}".encode()

    def _exporter(self, kind: type, address: str) -> Any:
        key = (kind, address)
        if key not in self._exporters:
            self._exporters[key] = kind(endpoint=address)
        return self._exporters[key]

    # -- metrics -----------------------------------------------------------------------------------

    def _take_metrics(self, meta: Mapping[str, Any], body: memoryview) -> bool:
        exporter = self._exporter(OTLPMetricExporter, f"{meta['endpoint']}/v1/metrics")
        resource = Resource(meta["resource"])
        times = (meta["began_ms"] * NS_PER_MS, meta["at_ms"] * NS_PER_MS)
        for metrics in _portions(families_of(str(body, "utf-8")), times):
            scope = ScopeMetrics(scope=SCOPE, metrics=metrics, schema_url="")
            of_node = ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")
            if exporter.export(MetricsData([of_node])).value:
                return False
        return True

    # -- traces ------------------------------------------------------------------------------------

    def _take_traces(self, meta: Mapping[str, Any], body: memoryview) -> bool:
        resource, spans, position = Resource(meta["resource"]), [], 0
        for request in meta["requests"]:
            for topic, partition, code, base_offset, size in request["batches"]:
                attributes = {
                    "messaging.system": "kafka",
                    "messaging.destination.name": topic,
                    "messaging.destination.partition.id": str(partition),
                    **_phases(request),
                }
                status = Status(StatusCode.UNSET)
                if code:
                    status = Status(StatusCode.ERROR, ErrorCode(code).name)
                    attributes["error.type"] = ErrorCode(code).name
                times = tuple(
                    int((request[name] + meta["wall_offset_ms"]) * NS_PER_MS)
                    for name in ("arrived_ms", "sent_ms")
                )
                for delta, parent in self._traced(body[position : position + size]):
                    own = attributes
                    if base_offset >= 0:
                        own = {**attributes, "messaging.kafka.offset": base_offset + delta}
                    spans.append(
                        ReadableSpan(
                            f"Produce {topic}",
                            SpanContext(
                                parent.trace_id,
                                self._ids.generate_span_id(),
                                is_remote=False,
                                trace_flags=parent.trace_flags,
                                trace_state=parent.trace_state,
                            ),
                            parent,
                            resource,
                            own,
                            kind=SpanKind.SERVER,
                            status=status,
                            start_time=times[0],
                            end_time=times[1],
                            instrumentation_scope=SCOPE,
                        )
                    )
                position += size
        if not spans:
            return True
        exporter = self._exporter(OTLPSpanExporter, f"{meta['endpoint']}/v1/traces")
        return not exporter.export(spans).value

    def _traced(self, run: memoryview) -> Iterator[tuple[int, SpanContext]]:
        """The records of one batch that carry a sampled trace, by their offset deltas. A batch that cannot be
        read has none."""
        found = 0
        try:
            for batch in iterate(run):
                for record in records_of(batch, DECOMPRESSED_BYTES_MAX):
                    parent = self._parent(record)
                    if parent is not None and found < SPANS_MAX:
                        found += 1
                        yield record.offset - batch.header.base_offset, parent
        except CorruptBatchError:
            return  # the broker has refused it, and told the client

    def _parent(self, record: Record) -> SpanContext | None:
        carrier = {
            name: (value or b"").decode("ascii", "replace")
            for name, value in record.headers
            if name in self._propagator.fields
        }
        if not carrier:
            return None
        parent = get_current_span(self._propagator.extract(carrier)).get_span_context()
        return parent if parent.is_valid and parent.trace_flags.sampled else None


class _Listener(logging.Handler):
    """Hands the sentences of OpenTelemetry's own log over."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note_sentence = note

    def emit(self, record: logging.LogRecord) -> None:
        self._note_sentence(record.getMessage())


def _phases(request: Mapping[str, float]) -> dict[str, float]:
    took_ms = (
        request["began_ms"] - request["arrived_ms"],
        request["handled_ms"] - request["began_ms"],
        request["answered_ms"] - request["handled_ms"],
        request["throttle_ms"],
        request["sent_ms"] - request["answered_ms"],
    )
    return {f"barnabas.{name}_ms": value for name, value in zip(PHASES, took_ms, strict=True)}


def _portions(families: Iterator[Family], times: tuple[int, int]) -> Iterator[list[Metric]]:
    """The metrics of a page, `POINTS_MAX` values at a time."""
    portion: list[Metric] = []
    size = 0
    for family in families:
        points = _points(family, times)
        for start in range(0, len(points), POINTS_MAX):
            part = points[start : start + POINTS_MAX]
            portion.append(_metric(family, part))
            size += len(part)
            if size >= POINTS_MAX:
                yield portion
                portion, size = [], 0
    if portion:
        yield portion


def _points(family: Family, times: tuple[int, int]) -> list[Any]:
    began_ns, at_ns = times
    if family.type is MetricType.HISTOGRAM:
        return [
            HistogramDataPoint(
                attributes=found.labels,
                start_time_unix_nano=began_ns,
                time_unix_nano=at_ns,
                count=sum(found.counts),
                sum=found.total,
                bucket_counts=found.counts,
                explicit_bounds=found.bounds,
                min=UNKNOWN,
                max=UNKNOWN,
            )
            for found in histograms_of(family)
        ]
    return [
        NumberDataPoint(
            attributes=labels,
            start_time_unix_nano=began_ns,
            time_unix_nano=at_ns,
            value=int(value) if value.is_integer() else value,
        )
        for _, labels, value in family.samples
    ]


def _metric(family: Family, points: Sequence[Any]) -> Metric:
    data: Any
    if family.type is MetricType.COUNTER:
        data = Sum(points, aggregation_temporality=_CUMULATIVE, is_monotonic=True)
    elif family.type is MetricType.HISTOGRAM:
        data = Histogram(points, aggregation_temporality=_CUMULATIVE)
    else:
        data = Gauge(points)
    return Metric(name=family.name, description=family.help, unit="", data=data)
