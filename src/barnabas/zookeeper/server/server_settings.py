"""The settings of one server: its zoo.cfg, in the keys of Apache ZooKeeper.

A key that is not read is named; one that would change who may do what, or who votes, is refused. The number
of a server of an ensemble is in the file ``myid`` of its directory, as with ZooKeeper.

Source: ZooKeeper's administrator's guide; ``QuorumPeerConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.types import Endpoint

ALONE = 1
"""The number of a server without an ensemble."""
SERVER_ID_MAX = 127
FRAME_BYTES_MAX = 0xFFFFF
FRAME_BYTES_LIMIT = 4 * 1024 * 1024
"""The bytes that fit into one batch of the quorum's log, with its identities."""
RAFT: Mapping[str, Any] = {"segment_bytes": 64 * 1024 * 1024}
"""The settings of every quorum: a log goes in whole segments, once snapshots cover them."""
READ = (
    "dataDir", "clientPort", "clientPortAddress", "tickTime", "maxClientCnxns", "minSessionTimeout",
    "maxSessionTimeout", "4lw.commands.whitelist", "jute.maxbuffer",
)  # fmt: skip
REFUSED = {
    "secureClientPort": "clients cannot come by TLS",
    "authProvider": "the schemes world, digest and ip are served",
    "requireClientAuthScheme": "the schemes world, digest and ip are served",
    "sessionRequireClientSASLAuth": "clients cannot authenticate by SASL",
    "enforce.auth": "no scheme can be required of every client",
    "ssl.": "neither clients nor servers can speak TLS",
    "sslQuorum": "servers cannot speak TLS to each other",
    "quorum.auth.enableSasl": "servers cannot authenticate by SASL",
    "peerType": "every server votes",
    "group.": "every server's vote has the same weight",
    "weight.": "every server's vote has the same weight",
    "dynamicConfigFile": "the servers are those of this file",
}
"""Keys, or beginnings of keys, with the reason why a server with them does not start."""


class SettingsError(ValueError):
    """One sentence about one key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of one server. Times are milliseconds."""

    data_dir: str
    client_endpoint: Endpoint
    server_id: int = ALONE
    tick_ms: int = 3_000
    session_timeout_ms: tuple[int, int] = (6_000, 60_000)
    connections_per_address_max: int = 60
    frame_bytes_max: int = FRAME_BYTES_MAX
    whitelist: frozenset[str] = frozenset(("srvr",))
    quorum_endpoints: Mapping[int, Endpoint] = field(
        default_factory=lambda: {ALONE: Endpoint("localhost", 0)}
    )
    """The addresses at which the servers agree, each one's first port."""
    link_endpoints: Mapping[int, Endpoint] = field(default_factory=dict)
    """The addresses at which they take each other's proposals, each one's second port."""
    unread: tuple[str, ...] = ()
    """Keys of the file that are not read."""
    raft: Mapping[str, Any] = field(default_factory=lambda: {**RAFT, "election_timeout_ms": 50})
    """Further settings of the quorum's replica: one alone elects itself at once."""

    @property
    def has_ensemble(self) -> bool:
        return bool(self.link_endpoints)

    def describe(self) -> tuple[tuple[str, object], ...]:
        """The settings as the word ``conf`` says them."""
        low, high = self.session_timeout_ms
        return (
            ("clientPort", self.client_endpoint.port),
            ("clientPortAddress", self.client_endpoint.host or "0.0.0.0"),
            ("dataDir", self.data_dir),
            ("tickTime", self.tick_ms),
            ("maxClientCnxns", self.connections_per_address_max),
            ("minSessionTimeout", low),
            ("maxSessionTimeout", high),
            ("serverId", self.server_id),
            *(
                (f"server.{number}", f"{at}:{self.link_endpoints[number].port}")
                for number, at in self.quorum_endpoints.items()
                if number in self.link_endpoints
            ),
        )


def server_settings(
    properties: Mapping[str, str], read_my_id: Callable[[str], str]
) -> ServerSettings:
    """The settings in the properties of a zoo.cfg; `read_my_id` gives the text of a file. Raises
    `SettingsError`, and what `read_my_id` raises."""
    for key, value in properties.items():
        for refused, reason in REFUSED.items():
            if key.startswith(refused) and value not in ("false", "participant"):
                raise SettingsError(f"{key} is not served: {reason}")
    data_dir = properties.get("dataDir", "")
    if not data_dir:
        raise SettingsError("dataDir is missing")
    tick_ms = _number(properties, "tickTime", 3_000, 1)
    low = _number(properties, "minSessionTimeout", -1, -1)
    high = _number(properties, "maxSessionTimeout", -1, -1)
    low, high = low if low > 0 else 2 * tick_ms, high if high > 0 else 20 * tick_ms
    if low > high:
        raise SettingsError("minSessionTimeout must not be larger than maxSessionTimeout")
    frame_bytes_max = _number(properties, "jute.maxbuffer", FRAME_BYTES_MAX, 1)
    if frame_bytes_max > FRAME_BYTES_LIMIT:
        raise SettingsError(f"jute.maxbuffer must be {FRAME_BYTES_LIMIT} at most")
    servers = _servers(properties)
    server_id = _own_id(read_my_id(f"{data_dir}/myid"), servers) if servers else ALONE
    port = _number(properties, "clientPort", None, 1)
    words = properties.get("4lw.commands.whitelist", "srvr").split(",")
    made = ServerSettings(
        data_dir=data_dir,
        client_endpoint=Endpoint(properties.get("clientPortAddress", ""), port),
        server_id=server_id,
        tick_ms=tick_ms,
        session_timeout_ms=(low, high),
        connections_per_address_max=_number(properties, "maxClientCnxns", 60, 0),
        frame_bytes_max=frame_bytes_max,
        whitelist=frozenset(word.strip() for word in words),
        unread=tuple(key for key in properties if key not in READ and key[:7] != "server."),
    )
    if not servers:
        return made
    return _in_ensemble(made, servers)


def _in_ensemble(
    alone: ServerSettings, servers: Mapping[int, tuple[Endpoint, Endpoint]]
) -> ServerSettings:
    return replace(
        alone,
        quorum_endpoints={number: one for number, (one, _) in servers.items()},
        link_endpoints={number: other for number, (_, other) in servers.items()},
        raft=RAFT,
    )


def _servers(properties: Mapping[str, str]) -> dict[int, tuple[Endpoint, Endpoint]]:
    """``server.N=host:port:port``: where the servers agree, and where they take each other's proposals."""
    found = {}
    for key, value in properties.items():
        if not key.startswith("server."):
            continue
        number = _server_id(key.removeprefix("server."), key)
        address, _, client = value.partition(";")
        parts = address.rsplit(":", 3 if address.endswith(":participant") else 2)
        if client or len(parts) < 3 or not (parts[1].isdigit() and parts[2].isdigit()):
            raise SettingsError(f"{key} is host:port:port, not {value!r}")
        host = parts[0].strip("[]")
        found[number] = Endpoint(host, int(parts[1])), Endpoint(host, int(parts[2]))
    if len(found) == 1:
        raise SettingsError("an ensemble has two servers at least; one alone has no server.N")
    return found


def _own_id(text: str, servers: Mapping[int, Any]) -> int:
    number = _server_id(text.strip(), "myid")
    if number not in servers:
        raise SettingsError(f"myid is {number}, and there is no server.{number}")
    return number


def _server_id(text: str, where: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= SERVER_ID_MAX:
        raise SettingsError(f"{where} must be a number from 1 to {SERVER_ID_MAX}, not {text!r}")
    return int(text)


def _number(properties: Mapping[str, str], key: str, default: int | None, low: int) -> int:
    text = properties.get(key)
    if text is None:
        if default is None:
            raise SettingsError(f"{key} is missing")
        return default
    try:
        number = int(text, 0)
    except ValueError:
        raise SettingsError(f"{key} must be a number, not {text!r}") from None
    if number < low:
        raise SettingsError(f"{key} must be {low} at least, not {number}")
    return number
