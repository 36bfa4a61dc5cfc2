"""A receiver of OpenTelemetry's protocol over HTTP, on a thread of the test."""

from __future__ import annotations

import gzip
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS: dict[str, Any] = {
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/traces": ExportTraceServiceRequest,
}


class OtlpReceiver:
    """Keeps what nodes export. `status` is what it answers."""

    def __init__(self) -> None:
        self.status = HTTPStatus.OK
        self.received: list[Any] = []
        self.arrived = threading.Event()
        """Something was exported."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.received.append(KINDS[self.path].FromString(body))
                receiver.arrived.set()
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def metrics(self) -> list[Any]:
        """Every metric that came, with its data points."""
        return [
            metric
            for request in self.received
            for of_node in getattr(request, "resource_metrics", ())
            for scope in of_node.scope_metrics
            for metric in scope.metrics
        ]

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.received
            for of_node in getattr(request, "resource_spans", ())
            for scope in of_node.scope_spans
            for span in scope.spans
        ]

    @property
    def resources(self) -> list[dict[str, str]]:
        """The attributes of those who sent."""
        return [
            attributes_of(sender.resource)
            for request in self.received
            for name in ("resource_metrics", "resource_spans")
            for sender in getattr(request, name, ())
        ]


def attributes_of(owner: Any) -> dict[str, Any]:
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in owner.attributes
    }
