"""The listeners of a node that its broker serves: their endpoints, counts, configuration and quotas."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.config.node import NodeConfig
from barnabas.node.dynamic_security import DynamicSecurity
from barnabas.node.listeners import Listeners
from barnabas.security.quotas.client_meter import ClientMeter
from barnabas.security.quotas.client_quotas import ClientQuotas


class BrokerListeners:
    """The broker's part of a node's listeners."""

    def __init__(self, listeners: Listeners, config: NodeConfig, dynamic: DynamicSecurity) -> None:
        """The listeners are bound. May block."""
        self._listeners = listeners
        self._specs = config.broker_listeners
        self._dynamic = dynamic
        self.endpoints = listeners.advertised(self._specs)

    def metrics(self) -> Mapping[str, int]:
        """The counts of all the node's listeners."""
        return self._listeners.certificates.metrics()

    def follow(self, texts: Mapping[str, str]) -> None:
        """Apply the broker's configuration, which may have changed."""
        self._dynamic.follow(texts)

    def measure(self, quotas: ClientQuotas) -> None:
        """Meter clients' requests while quotas exist; without quotas, listeners have no meter."""
        meter = ClientMeter(quotas) if quotas.active else None
        self._listeners.measure(self._specs, meter)

    def serve(self) -> None:
        """Read requests, which wait until then."""
        self._listeners.serve(self._specs)

    def __repr__(self) -> str:
        return f"BrokerListeners({', '.join(self.endpoints)})"
