"""All of one node's security in one value, and the check that it can work, before anything begins."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.config.definition import ConfigError
from barnabas.config.node import NodeConfig
from barnabas.ports import HasSecrets, Ports
from barnabas.security.client_security import OPEN, ClientSecurity
from barnabas.security.listener_security import ListenerStages, between_brokers, to_controllers
from barnabas.security.tls_settings import TlsSettings


class NodeSecurity:
    """How a node's own connections are made. Raises :class:`ConfigError`."""

    def __init__(self, config: NodeConfig) -> None:
        self.to_controllers = to_controllers(config)
        self.between_brokers: ClientSecurity = OPEN
        try:
            self.between_brokers = between_brokers(config)
        except ConfigError:
            if config.is_broker:
                raise
            # A controller asks brokers after an unclean loss only, and its file need not say how.

    @property
    def is_open(self) -> bool:
        return self.to_controllers.is_open and self.between_brokers.is_open

    def check(self, ports: Ports, stages: Iterable[ListenerStages]) -> None:
        """Read every certificate that is configured. Raises :class:`ConfigError`."""
        wanted: dict[tuple[TlsSettings, bool], None] = {}
        for stage in stages:
            if stage.security.tls is not None:
                wanted[stage.security.tls, True] = None
        for outgoing in (self.between_brokers, self.to_controllers):
            if outgoing.tls is not None:
                wanted[outgoing.tls, False] = None
        if not wanted:
            return
        if not isinstance(ports, HasSecrets):
            raise ConfigError("listener.security.protocol.map", "SSL", "there is no TLS here")
        for tls, is_server in wanted:
            ports.secrets.check_tls(tls, is_server=is_server)
