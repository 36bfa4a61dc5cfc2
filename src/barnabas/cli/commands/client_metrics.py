"""``barnabas cluster client-metrics``: shows the metrics that clients pushed (KIP-714).

The command asks every broker, since a client pushes to one of them. A push is OpenTelemetry's MetricsData,
which the package ``opentelemetry-proto`` decodes (``pip install 'barnabas[telemetry]'``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import typer

from barnabas.cli.connection.connect import AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.watching import watched
from barnabas.host.client import Connected
from barnabas.types import Uuid, uuid_text
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import (
    DescribeClusterResponse,
    PushedMetrics,
)

REQUEST_TIMEOUT_MS = 10_000.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One data point of one client. The `value` of a histogram is its mean; `count` is its number of
    values."""

    client_instance_id: str
    client_id: str
    software: str
    address: str
    broker: int
    at_ms: int
    metric: str
    attributes: dict[str, str]
    kind: str
    value: float
    count: int | None = None


@watched
def client_metrics(
    metric: str = typer.Option(
        "", "--metric", "-m", metavar="PREFIX", help="Only metrics whose names begin with this."
    ),
    client: str = typer.Option(
        "", "--client", "-c", metavar="ID", help="Only this client id or client instance id."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """The last metrics that clients pushed, as subscriptions ask for them."""
    decoder = _decoder()
    found: list[Measurement] = []
    with cluster(bootstrap, data) as connected:
        for node, pushed in _pushes(connected):
            if client in ("", pushed.client_id, uuid_text(Uuid(pushed.client_instance_id))):
                found += measurements(decoder, node, pushed)
    found = [measured for measured in found if measured.metric.startswith(metric)]
    table = table_of(
        None if found else "no client has pushed such metrics",
        "client", "broker", "metric", "attributes", "kind", "value",
        right=("broker", "value"),
    )  # fmt: skip
    for measured in found:
        labels = ",".join(f"{key}={value}" for key, value in sorted(measured.attributes.items()))
        table.add_row(
            measured.client_id or measured.client_instance_id, str(measured.broker),
            measured.metric, labels or "-", measured.kind, f"{measured.value:g}",
        )  # fmt: skip
    show(as_json, [asdict(measured) for measured in found], table)


def _pushes(connected: Connected) -> Iterator[tuple[int, PushedMetrics]]:
    """(broker, push), of every broker that is alive."""
    request = DescribeClusterRequest(include_client_metrics=True)
    for node in sorted(connected.client.cluster.brokers):
        answer: DescribeClusterResponse = connected.call(
            connected.client.ask_node(node, request, timeout_ms=REQUEST_TIMEOUT_MS)
        )
        for pushed in answer.client_metrics:
            yield node, pushed


def _decoder() -> Any:
    """The class of OpenTelemetry's MetricsData. Raises :class:`Failure`."""
    try:
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ImportError as error:
        raise Failure(
            "client metrics are decoded by opentelemetry-proto: pip install 'barnabas[telemetry]'"
        ) from error
    return MetricsData


def measurements(decoder: Any, broker: int, pushed: PushedMetrics) -> Iterator[Measurement]:
    """The data points of one push. Raises :class:`Failure` if it is not MetricsData."""
    try:
        data = decoder.FromString(bytes(pushed.metrics))
    except Exception as error:  # the library's own error, whose class depends on its backend
        who = pushed.client_id or uuid_text(Uuid(pushed.client_instance_id))
        raise Failure(f"what client {who} pushed cannot be decoded: {error}") from error
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind is None:
                    continue
                for point in getattr(metric, kind).data_points:
                    value, count = _value(kind, point)
                    yield Measurement(
                        uuid_text(Uuid(pushed.client_instance_id)), pushed.client_id,
                        pushed.software, pushed.address, broker, pushed.at_ms, metric.name,
                        {label.key: _text(label.value) for label in point.attributes},
                        kind, value, count,
                    )  # fmt: skip


def _value(kind: str, point: Any) -> tuple[float, int | None]:
    """(value, count) of a data point."""
    if kind in ("gauge", "sum"):
        which = point.WhichOneof("value")
        return (0.0 if which is None else float(getattr(point, which))), None
    return (point.sum / point.count if point.count else 0.0), int(point.count)


def _text(value: Any) -> str:
    """An attribute's value, as text."""
    which = value.WhichOneof("value")
    return "" if which is None else str(getattr(value, which))
