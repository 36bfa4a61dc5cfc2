"""Sends a node's metrics and traces at intervals, through a process of its own.

The node takes a page of metrics as for a scrape, in slices, and hands the text over; the helper
process (:mod:`barnabas.monitoring.otel.service`) has OpenTelemetry's packages, encodes and sends.
One export is under way at a time: a receiver that is slow or down costs the node one line in the
log, and a failed export is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.monitoring.exposition import Exposition
from barnabas.monitoring.otel.message import metrics_message, traces_message
from barnabas.monitoring.otel.settings import OtelSettings
from barnabas.monitoring.otel.traced_requests import TracedRequests
from barnabas.monitoring.scrape import Scrapes
from barnabas.ports import HasExportHelper, Ports, Wakeup

SERVICE = "barnabas.monitoring.otel.service"
QUEUE = "otel"
TRACES_INTERVAL_MS = 5_000.0
"""The longest time that a trace waits for its export; OpenTelemetry's own default."""


class OtelExporter:
    """The exports of one node."""

    def __init__(
        self,
        ports: Ports,
        settings: OtelSettings,
        scrapes: Scrapes,
        traced: TracedRequests | None,
        resource: Callable[[], Mapping[str, str]],
    ) -> None:
        """`traced` is None where no request is traced; `resource` says who sends."""
        assert isinstance(ports, HasExportHelper)
        self._ports = ports
        self._helper = ports.export_helper
        self._settings = settings
        self._scrapes = scrapes
        self._traced = traced
        self._resource = resource
        self._began_ms = ports.clock.wall_ms()
        self._metrics_at_ms = ports.clock.now_ms() + settings.interval_ms
        self._wakeup: Wakeup | None = None
        self._problem = ""
        self._closed = False

    def begin(self) -> None:
        """Export from now on."""
        self._wait()

    def close(self) -> None:
        """End the helper process, also in the middle of an export."""
        self._closed = True
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._helper.close()

    def _wait(self) -> None:
        if self._closed:
            return
        at_ms = self._metrics_at_ms
        if self._traced is not None:
            interval_ms = min(TRACES_INTERVAL_MS, self._settings.interval_ms)
            at_ms = min(at_ms, self._ports.clock.now_ms() + interval_ms)
        self._wakeup = self._ports.wakeups.call_at(at_ms, self._export)

    def _export(self) -> None:
        now_ms = self._ports.clock.now_ms()
        requests = [] if self._traced is None else self._traced.take()
        if requests:
            offset_ms = self._ports.clock.wall_ms() - now_ms
            self._send(traces_message(self._head(), requests, offset_ms), self._export_metrics)
        else:
            self._export_metrics()

    def _export_metrics(self) -> None:
        now_ms = self._ports.clock.now_ms()
        if self._closed or now_ms < self._metrics_at_ms:
            self._wait()
            return
        self._metrics_at_ms = now_ms + self._settings.interval_ms
        self._scrapes.begin(self._on_page)

    def _on_page(self, page: Exposition | None) -> None:
        if page is None:  # the log says why
            self._wait()
        else:
            self._scrapes.write(page, self._on_text)

    def _on_text(self, parts: Sequence[bytes]) -> None:
        self._send(metrics_message(self._head(), b"".join(parts)), self._wait)

    def _head(self) -> dict[str, Any]:
        return {
            "endpoint": self._settings.endpoint,
            "resource": dict(self._resource()),
            "began_ms": self._began_ms,
            "at_ms": self._ports.clock.wall_ms(),
        }

    def _send(self, message: bytes, then: Callable[[], None]) -> None:
        def done(answer: bytes | BaseException) -> None:
            if not self._closed:
                problem = answer.decode() if isinstance(answer, bytes) else str(answer)
                self._report(problem)
                then()

        self._ports.background.run(QUEUE, lambda: self._helper.call(SERVICE, message), done)

    def _report(self, problem: str) -> None:
        """Log a problem once, and its end."""
        if problem and not self._problem:
            endpoint = self._settings.endpoint
            self._ports.log("warning", "otel.export_failed", endpoint=endpoint, why=problem)
        elif self._problem and not problem:
            self._ports.log("info", "otel.export_resumed", endpoint=self._settings.endpoint)
        self._problem = problem
