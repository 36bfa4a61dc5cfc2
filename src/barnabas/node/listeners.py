"""A node's listeners: their API tables, security, limits and advertised endpoints.

Listeners are bound before the roles are created, as the roles advertise the real ports. They serve from the
next turn of the event loop on, when every API table is filled.

Source: Kafka's ``SocketServer``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping

from barnabas.config.listeners import ADDRESS_LIMITS, ListenerSpec, parse_address_limits
from barnabas.config.node import NodeConfig
from barnabas.config.providers import Resolved
from barnabas.ports import Listener, Ports
from barnabas.security.certificate_watch import CertificateWatch
from barnabas.security.listener_security import ListenerStages, listener_security
from barnabas.security.quotas.connection_limits import ConnectionQuotas, connection_limits
from barnabas.security.sasl_server import Credentials, Tokens
from barnabas.security.scram import ScramCredential
from barnabas.types import Endpoint
from barnabas.wire.api_versions import Features, NodeIdentity
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.metering import RequestMeter
from barnabas.wire.server import RequestServer, ServerLimits

FeatureSource = Callable[[], Features]


def no_credentials(mechanism: str, user: str) -> ScramCredential | None:
    """The `Credentials` of a node without metadata: no user has any."""
    return None


class Listeners:
    """All listeners of a node by name."""

    def __init__(
        self,
        ports: Ports,
        config: NodeConfig,
        features: FeatureSource,
        credentials: Credentials = no_credentials,
        tokens: Tokens | None = None,
        address_rate: Callable[[str], float | None] = lambda host: None,
    ) -> None:
        """`credentials` looks up SCRAM credentials, `tokens` delegation tokens, `address_rate` the quota of
        an address for new connections in a second. Raises ``ConfigError``."""
        self._ports = ports
        self._config = config
        self.servers: dict[str, RequestServer] = {}
        self._bound: dict[str, Listener] = {}
        self.connections = ConnectionQuotas(
            ports.clock.now_ms, ports.network.capacity, address_rate=address_rate
        )
        self._own_limits = ""
        """The configured text of the limits for single addresses (max.connections.per.ip.overrides)."""
        self._disconnected: list[Callable[[int], None]] = []
        sockets = config.sockets
        limits = ServerLimits(
            request_max_bytes=sockets.request_bytes_max, idle_max_ms=sockets.connections_idle_ms_max
        )
        ids = itertools.count(1)
        self.stages = {
            spec.name: ListenerStages(ports, listener_security(config, spec), credentials, tokens)
            for spec in config.listeners
        }
        self.certificates = CertificateWatch(ports, self.stages)
        for spec in config.listeners:
            self.servers[spec.name] = RequestServer(
                ports,
                spec.name,
                ApiTable(),
                limits=limits,
                features=features,
                authenticator=self.stages[spec.name].authenticator,
                on_disconnect=self._on_disconnect,
                connection_ids=ids,
            )

    def bind(self) -> None:
        """Listen on every address. Raises ``OSError`` with a sentence where one is taken,
        ``ConfigError`` where what a listener needs cannot be read. May block."""
        texts = self._config.texts
        self._own_limits = texts.get(ADDRESS_LIMITS, "")
        self._limit(texts, self._addresses_of(self._own_limits))
        for spec in self._config.listeners:
            self.stages[spec.name].begin()
            server = self.servers[spec.name]
            accept = self.stages[spec.name].accept(server.accept)
            self._bound[spec.name] = self._ports.network.listen(
                spec.endpoint,
                accept,
                self.connections.gate(spec.name, for_nodes=self._is_for_nodes(spec)),
            )
        self.certificates.begin()

    def _is_for_nodes(self, spec: ListenerSpec) -> bool:
        """Whether only nodes of the cluster use the listener."""
        config = self._config
        if spec.name in config.controller_listener_names:
            return True
        return len(config.broker_listeners) > 1 and spec.name == config.inter_broker_listener_name

    # -- limits that change ------------------------------------------------------------------------

    def follow(self, changed: Resolved) -> None:
        """Apply a node's changed configuration."""
        texts = changed.values
        for stage in self.stages.values():
            stage.follow(changed)
        own = texts.get(ADDRESS_LIMITS, "")
        if own == self._own_limits:
            self._limit(texts, self.connections.limits.own)
            return
        self._own_limits = own

        def on_found(found: dict[str, int] | BaseException) -> None:
            if isinstance(found, BaseException):
                self._ports.log("error", "broker.config_refused", reason=str(found))
            elif self._own_limits == own:
                self._limit(texts, found)

        self._ports.background.run("addresses", lambda: self._addresses_of(own), on_found)

    def _limit(self, texts: Mapping[str, str], own: Mapping[str, int]) -> None:
        self.connections.limits = connection_limits(texts, self.servers, own)

    def _addresses_of(self, text: str) -> dict[str, int]:
        """Connection limits by address. `text` may name hosts, which are resolved here. Blocks. Raises
        ``ConfigError``."""
        found: dict[str, int] = {}
        for name, most in parse_address_limits(text).items():
            try:
                addresses = self._ports.network.addresses_of(name)
            except (OSError, ValueError) as error:
                self._ports.log("warning", "config.unknown_address", address=name, error=error)
            else:
                found.update(dict.fromkeys(addresses, most))
        return found

    def advertised(self, specs: Iterable[ListenerSpec]) -> dict[str, Endpoint]:
        """The advertised endpoints of the listeners `specs`, with their real ports, by listener name. May
        block."""
        said = self._config.reached_at(specs, self._ports.network.machine_name)
        return {
            name: Endpoint(at.host, at.port or self._bound[name].endpoint.port)
            for name, at in said.items()
        }

    def tables(self, specs: Iterable[ListenerSpec]) -> list[ApiTable]:
        return [self.servers[spec.name].table for spec in specs]

    def on_disconnect(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the id of each connection that ends."""
        self._disconnected.append(callback)

    def measure(self, specs: Iterable[ListenerSpec], meter: RequestMeter | None) -> None:
        """Meter the requests to the listeners `specs` with `meter`; None ends the metering."""
        for spec in specs:
            self.servers[spec.name].meter = meter

    def identify(self, identity: NodeIdentity) -> None:
        """Refuse clients of brokers' listeners that mean another cluster or node."""
        for spec in self._config.broker_listeners:
            self.servers[spec.name].identity = identity

    def hold(self, specs: Iterable[ListenerSpec]) -> None:
        """Accept connections to the listeners `specs`, but read no requests before `serve`."""
        for spec in specs:
            self.servers[spec.name].hold()

    def serve(self, specs: Iterable[ListenerSpec]) -> None:
        for spec in specs:
            self.servers[spec.name].serve()

    def end(self, specs: Iterable[ListenerSpec]) -> None:
        """Stop serving clients on `specs`: new connections are refused, and responses that are not ready yet
        are not sent."""
        for spec in specs:
            self._bound[spec.name].close()
            self.servers[spec.name].close()

    def _on_disconnect(self, connection_id: int) -> None:
        for callback in self._disconnected:
            callback(connection_id)

    def stop_accepting(self) -> None:
        for listener in self._bound.values():
            listener.close()

    def close(self) -> None:
        self.stop_accepting()
        for server in self.servers.values():
            server.close()

    def describe(self) -> dict[str, object]:
        return {
            name: server.statistics() | self.stages[name].statistics()
            for name, server in self.servers.items()
        }
