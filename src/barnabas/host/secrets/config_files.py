"""Reads configurations of nodes and clients, and resolves their `config.providers` on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.config.definition import ConfigError
from barnabas.config.properties import parse_properties
from barnabas.config.providers import resolve
from barnabas.security.client_keys import client_security
from barnabas.security.client_security import ClientSecurity

if TYPE_CHECKING:
    from barnabas.config.node import NodeConfig


class HostSources:
    """``config.providers.Sources`` of this process."""

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()


def node_config(text: str) -> NodeConfig:
    """The configuration in the text of a node's properties file. Raises :class:`ConfigError`, and
    ``ValueError`` if it is no properties file."""
    from barnabas.config.node import NodeConfig  # loads every table; a client needs none
    from barnabas.host.coordination import coordination_of

    resolved = resolve(parse_properties(text), HostSources())
    try:
        values = resolved.values
        return NodeConfig.from_properties(values, coordination_of(values)).below(os.getcwd())
    except ConfigError as error:
        raise resolved.hide(error) from None


def security_of(properties: Mapping[str, str]) -> ClientSecurity:
    """The security settings in a client's properties. Raises :class:`ConfigError`."""
    resolved = resolve(properties, HostSources())
    try:
        return client_security(resolved.values)
    except ConfigError as error:
        raise resolved.hide(error) from None
