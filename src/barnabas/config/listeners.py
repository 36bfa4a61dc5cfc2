"""Listeners, advertised listeners and voters: the endpoints that a node's properties name.

Source: KIP-103 (named listeners), KIP-595 (``controller.quorum.voters``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.config.definition import ConfigError
from barnabas.types import Endpoint, NodeId, is_int32

ADDRESS_LIMITS = "max.connections.per.ip.overrides"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ListenerSpec(NamedTuple):
    """One listener. An empty `host` means every address of the machine."""

    name: str
    host: str
    port: int
    protocol: str

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.name}://{Endpoint(self.host, self.port)}"


class Voter(NamedTuple):
    """One voter of the metadata quorum."""

    node_id: NodeId
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.node_id}@{self.endpoint}"


def parse_endpoint(key: str, text: str) -> Endpoint:
    """``host:port`` or ``[v6]:port``; the host may be empty. Raises :class:`ConfigError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not is_int32(port) or int(port) > 65_535:
        raise ConfigError(key, text, "it must be host:port with a port from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(key, text, "an IPv6 address must be in brackets")
    return Endpoint(host, int(port))


def parse_protocol_map(items: str) -> dict[str, str]:
    """``NAME:PROTOCOL,...``. Raises :class:`ConfigError`."""
    key = "listener.security.protocol.map"
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in items.split(","))):
        name, colon, protocol = item.partition(":")
        if not colon or protocol.upper() not in PROTOCOLS:
            raise ConfigError(key, item, f"each entry must be NAME:PROTOCOL with {_or(PROTOCOLS)}")
        if name.upper() in found:
            raise ConfigError(key, items, f"it names {name} twice")
        found[name.upper()] = protocol.upper()
    return found


def parse_listeners(
    key: str, items: Sequence[str], protocols: Mapping[str, str]
) -> tuple[ListenerSpec, ...]:
    """``NAME://host:port`` entries, names unique. Raises :class:`ConfigError`."""
    specs: list[ListenerSpec] = []
    for item in items:
        name, separator, rest = item.partition("://")
        if not separator or not name:
            raise ConfigError(key, item, "each listener must be NAME://host:port")
        name = name.upper()
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(key, item, f"listener.security.protocol.map must name {name}")
        if any(spec.name == name for spec in specs):
            raise ConfigError(key, ",".join(items), f"listener names must differ, {name} does not")
        endpoint = parse_endpoint(key, rest)
        specs.append(ListenerSpec(name, endpoint.host, endpoint.port, protocol))
    return tuple(specs)


def check_ports_differ(key: str, specs: Sequence[ListenerSpec]) -> None:
    """Two listeners may share a port only for an IPv4 and an IPv6 host. Raises :class:`ConfigError`."""
    taken: dict[tuple[int, bool], str] = {}
    for spec in specs:
        at = (spec.port, ":" in spec.host)
        if spec.port and at in taken:
            raise ConfigError(key, str(spec), f"{taken[at]} already has port {spec.port}")
        taken[at] = spec.name


def parse_voters(items: Sequence[str]) -> tuple[Voter, ...]:
    """``id@host:port`` entries, ids unique, sorted by id. Raises :class:`ConfigError`."""
    key = "controller.quorum.voters"
    voters: dict[int, Voter] = {}
    for item in items:
        node, at, rest = item.partition("@")
        if not at or not is_int32(node):
            raise ConfigError(key, item, "each voter must be id@host:port")
        endpoint = parse_endpoint(key, rest)
        if not endpoint.host or not endpoint.port:
            raise ConfigError(key, item, "each voter needs a host and a port above 0")
        if endpoint.host == "0.0.0.0":
            raise ConfigError(key, item, "others cannot connect to 0.0.0.0")
        if int(node) in voters:
            raise ConfigError(key, ",".join(items), f"it names voter {node} twice")
        voters[int(node)] = Voter(NodeId(int(node)), endpoint)
    return tuple(voters[node] for node in sorted(voters))


def parse_address_limits(text: str) -> dict[str, int]:
    """`ADDRESS_LIMITS`: ``address:number`` entries, where an address may be a name.
    Raises :class:`ConfigError`."""
    key = ADDRESS_LIMITS
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, _, number = (part.strip() for part in item.rpartition(":"))
        address = address.removeprefix("[").removesuffix("]")
        if not address or not is_int32(number):
            raise ConfigError(key, item, "each entry must be address:number")
        found[address] = int(number)
    return found


def _or(words: Sequence[str]) -> str:
    return " or ".join(words)
