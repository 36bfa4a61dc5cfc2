"""A node's endpoint for metrics and health: its listeners, its routes, and the sources that a node has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from barnabas import __version__
from barnabas.broker.broker import Broker
from barnabas.client.network.channels import Channels
from barnabas.config.node import NodeConfig
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.monitoring.exposition import (
    OPEN_METRICS,
    PROMETHEUS,
    Exposition,
    accepts_open_metrics,
    labels_text,
)
from barnabas.monitoring.health import HealthCheck, NodeReadiness
from barnabas.monitoring.http.listeners import KEY, parse_listeners
from barnabas.monitoring.http.messages import (
    JSON,
    HttpRequest,
    HttpResponse,
    Respond,
    Route,
    problem,
)
from barnabas.monitoring.http.server import HttpServer
from barnabas.monitoring.scrape import Scrapes, Source, Wait
from barnabas.monitoring.sources.counted import broker_source, controller_source, quorum_source
from barnabas.monitoring.sources.groups import GroupSource
from barnabas.monitoring.sources.memory import kept_by
from barnabas.monitoring.sources.replicas import ReplicaSource
from barnabas.monitoring.sources.requests import RequestSource
from barnabas.ports import HasSecrets, Listener, Ports
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.transport import PURPOSES
from barnabas.security.listener_security import ListenerStages, listener_security
from barnabas.wire.server import RequestServer

if TYPE_CHECKING:
    from barnabas.monitoring.otel.exporter import OtelExporter

TOKEN_KEY = "metrics.bearer.token"


@runtime_checkable
class HasProcessFigures(Protocol):
    """A world whose nodes are processes with figures of their own."""

    def process_figures(self) -> Mapping[str, float]:
        """Values by the names of the table's section on the process."""


class MonitoredNode(Protocol):
    """The parts of a node that are monitored. A part that is made after the endpoint is None until
    then."""

    @property
    def config(self) -> NodeConfig: ...
    @property
    def ports(self) -> Ports: ...
    @property
    def quorum(self) -> RaftNode | None:
        """None in ZooKeeper mode."""

    @property
    def quorum_channels(self) -> Channels:
        """Connections to the other replicas of the quorum, among others."""

    @property
    def controller(self) -> QuorumController | None: ...
    @property
    def broker(self) -> Broker | None: ...
    @property
    def is_stopping(self) -> bool: ...
    @property
    def servers(self) -> Mapping[str, RequestServer]:
        """The Kafka listeners by name."""


class Extras(Protocol):
    """The metrics and checks that a mode adds."""

    def checks(self) -> Iterable[HealthCheck]: ...
    def steps(self, page: Exposition) -> Iterator[Wait | None]: ...


class Monitoring:
    """The endpoint of one node."""

    def __init__(
        self, node: MonitoredNode, cluster_id: Callable[[], str], extras: Extras | None = None
    ) -> None:
        """Raises ``ConfigError``."""
        self._node = node
        self._extras = extras
        self._specs = parse_listeners(cast("list[str]", node.config.values[KEY] or []))
        self._bound: list[Listener] = []
        self._cluster_id = cluster_id
        self._readiness = NodeReadiness(node.ports.clock)
        self._requests = RequestSource(lambda: self._node.broker)
        self._broker: Broker | None = None
        self._broker_sources: list[Source] = []
        self._scrapes = Scrapes(node.ports, lambda: list(self._sources()))
        token = node.config.text(TOKEN_KEY) or ""
        routes: dict[str, Route] = {
            "/metrics": self._metrics,
            "/health/live": self._live,
            "/health/ready": self._ready,
        }
        self._server = HttpServer(node.ports, routes, token)
        for server in node.servers.values():
            server.observer = self._requests
        self._exporter = self._new_exporter() if node.config.text("otel.endpoint") else None

    def _new_exporter(self) -> OtelExporter:
        """Raises ``ConfigError``."""
        from barnabas.monitoring.otel.exporter import OtelExporter
        from barnabas.monitoring.otel.settings import otel_settings
        from barnabas.monitoring.otel.traced_requests import TracedRequests

        node, settings = self._node, otel_settings(self._node.config)
        traced = None
        if settings.sample_ratio:
            traced = TracedRequests(self._requests, settings.sample_ratio)
            for server in node.servers.values():
                server.observer = traced
        return OtelExporter(node.ports, settings, self._scrapes, traced, self._resource)

    def _resource(self) -> dict[str, str]:
        node_id, cluster_id = str(self._node.config.node_id), self._cluster_id()
        return {
            "service.name": "barnabas",
            "service.version": __version__,
            "service.instance.id": f"{cluster_id}/{node_id}",
            "barnabas.node.id": node_id,
            "barnabas.cluster.id": cluster_id,
        }

    def bind(self) -> None:
        """Listen on every address, and begin to export. Raises ``OSError`` where an address is taken,
        ``ConfigError``."""
        ports = self._node.ports
        for spec in self._specs:
            security = listener_security(self._node.config, spec)
            if security.tls is not None and isinstance(ports, HasSecrets):
                ports.secrets.check_tls(security.tls, is_server=True)
            stages = ListenerStages(ports, security, lambda mechanism, user: None)
            listener = ports.network.listen(spec.endpoint, stages.accept(self._server.accept))
            self._bound.append(listener)
            ports.log("info", "metrics.listening", address=str(listener.endpoint))
        if self._exporter is not None:
            self._exporter.begin()

    def close(self) -> None:
        for listener in self._bound:
            listener.close()
        if self._exporter is not None:
            self._exporter.close()
        self._scrapes.close()
        self._server.close()

    # -- routes ------------------------------------------------------------------------------------

    def _metrics(self, request: HttpRequest, respond: Respond) -> None:
        is_open = accepts_open_metrics(request.accept)
        kind = OPEN_METRICS if is_open else PROMETHEUS

        def answer(page: Exposition | None) -> None:
            if page is None:
                sentence = "A metric cannot be read; the node's log says why."
                respond(problem(HTTPStatus.INTERNAL_SERVER_ERROR, sentence))
                return
            self._scrapes.write(page, respond_with, open_metrics=is_open)

        def respond_with(parts: Sequence[bytes]) -> None:
            respond(HttpResponse(HTTPStatus.OK, kind, parts))

        self._scrapes.begin(answer)

    def _live(self, request: HttpRequest, respond: Respond) -> None:
        respond(HttpResponse(HTTPStatus.OK, JSON, [b'{"alive": true}\n']))

    def _ready(self, request: HttpRequest, respond: Respond) -> None:
        checks = self._checks()
        is_ready = all(check.passes for check in checks)
        found = {"ready": is_ready, "checks": [check.describe() for check in checks]}
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        respond(HttpResponse(status, JSON, [(json.dumps(found, indent=2) + "\n").encode()]))

    def _checks(self) -> Sequence[HealthCheck]:
        node = self._node
        checks = self._readiness.checks(node.quorum, node.broker, is_stopping=node.is_stopping)
        return checks if self._extras is None else [*self._extras.checks(), *checks]

    # -- sources -----------------------------------------------------------------------------------

    def _sources(self) -> Iterator[Source]:
        node, quorum, controller = self._node, self._node.quorum, self._node.controller
        if controller is not None:
            yield partial(controller_source, controller)
        yield from self._sources_of(node.broker)
        clock = node.ports.clock
        if quorum is not None:
            yield lambda page: quorum_source(
                quorum, node.quorum_channels.traffic(*PURPOSES), clock.now_ms(), page
            )
        if self._extras is not None:
            yield self._extras.steps
        yield self._requests.steps
        yield self._own_steps

    def _sources_of(self, broker: Broker | None) -> list[Source]:
        """The sources of the broker; they keep what they wrote for its next scrape."""
        if broker is not None and broker is not self._broker:
            self._broker = broker
            given = broker.listeners.metrics() if self._node.controller is not None else {}
            self._broker_sources = [
                partial(broker_source, broker, frozenset(given)),
                ReplicaSource(broker).steps,
                GroupSource(broker).steps,
            ]
        return self._broker_sources

    def _own_steps(self, page: Exposition) -> Iterator[None]:
        config = self._node.config
        build = {
            "version": __version__,
            "node_id": str(config.node_id),
            "cluster_id": self._cluster_id(),
            "roles": roles_of(config),
        }
        page.add("barnabas_build_info{version,node_id,cluster_id,roles}", 1, labels_text(build))
        for check in self._checks():
            page.add(
                "barnabas_health{check}", int(check.passes), labels_text({"check": check.name})
            )
        mbean = "kafka.server:type=socket-server-metrics,name=connection-count,listener=*"
        for name, server in self._node.servers.items():
            page.add(mbean, len(server.connections), labels_text({"listener": name}))
        yield
        for owner, size in self._kept_bytes():
            page.add("barnabas_memory_bytes{owner}", size, labels_text({"owner": owner}))
        for what, count in self._held():
            page.add("barnabas_held{what}", count, labels_text({"what": what}))
        yield
        ports = self._node.ports
        if isinstance(ports, HasProcessFigures):
            for name, value in ports.process_figures().items():
                page.add(name, value)
        yield

    def _kept_bytes(self) -> Iterator[tuple[str, int]]:
        servers = self._node.servers.values()
        yield "unsent", self._node.ports.network.unsent_bytes
        yield "kept", sum(server.unread.kept_bytes for server in servers)
        if self._node.broker is not None:
            yield from kept_by(self._node.broker)

    def _held(self) -> Iterator[tuple[str, int]]:
        yield "requests", sum(s.statistics()["in_flight"] for s in self._node.servers.values())
        broker = self._node.broker
        if broker is not None:
            sessions = broker.fetches.sessions
            yield "fetch_sessions", len(sessions)
            yield "deadlines", len(broker.deadlines)
            yield "image_partitions", sum(map(len, broker.image.topics_by_id.values()))
            yield "logs", len(broker.logs.logs)


def roles_of(config: NodeConfig) -> str:
    """The roles as ``process.roles`` has them."""
    return ",".join(["broker"] * config.is_broker + ["controller"] * config.is_controller)
