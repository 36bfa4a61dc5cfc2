"""The keys ``otel.*`` of a node: where its metrics and traces go, and how often."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

from barnabas.config.definition import ConfigError
from barnabas.config.node import NodeConfig

ENDPOINT_KEY = "otel.endpoint"
INTERVAL_KEY = "otel.metrics.interval.ms"
SAMPLE_KEY = "otel.traces.sample.ratio"
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
NEEDED = "metrics and traces are sent by OpenTelemetry's packages: pip install 'barnabas[otel]'"


class OtelSettings(NamedTuple):
    """The values of the keys."""

    endpoint: str
    """The address of the receiver, without the paths of OTLP."""
    interval_ms: int
    sample_ratio: float
    """The share of Produce requests whose records are searched for a trace; 0 is none."""


def otel_settings(config: NodeConfig) -> OtelSettings:
    """Raises ``ConfigError``, also where the packages are missing."""
    endpoint = (config.text(ENDPOINT_KEY) or "").rstrip("/")
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ConfigError(
            ENDPOINT_KEY, endpoint, "it must be http://HOST:PORT or https://HOST:PORT"
        )
    if not all(map(_is_installed, PACKAGES)):
        raise ConfigError(ENDPOINT_KEY, endpoint, NEEDED)
    ratio = config.values[SAMPLE_KEY]
    assert isinstance(ratio, int | float)
    return OtelSettings(endpoint, config.int_value(INTERVAL_KEY), float(ratio))


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
