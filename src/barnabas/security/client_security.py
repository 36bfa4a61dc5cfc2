"""Security of outgoing connections: protocol, TLS settings and credential, from Kafka's client keys.

`ClientSecurity` is the value, which may be sent to other processes. A `SecureDialer` uses it to open
connections with TLS and SASL. Combinations that cannot work are refused with a sentence. Source: Kafka's
``CommonClientConfigs``, ``SaslConfigs``, ``SslConfigs``.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from barnabas.config.definition import ConfigError
from barnabas.config.listeners import PROTOCOLS
from barnabas.ports import HasSecrets, Ports, Receiver
from barnabas.security.jaas import OAUTHBEARER, PLAIN, check_mechanism, parse_login_module
from barnabas.security.oauth.login import TokenKeeper
from barnabas.security.oauth.settings import oauth_login
from barnabas.security.sasl_client import ClientExchange, SaslCredential
from barnabas.security.scram import SaslError
from barnabas.security.tls_settings import SecurityKeys, TlsSettings, tls_settings
from barnabas.security.tls_stream import Handshakes, TlsStream
from barnabas.types import Endpoint


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """PLAINTEXT without TLS and credential."""

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslCredential | None = None

    @property
    def is_open(self) -> bool:
        return self.tls is None and self.sasl is None

    def with_stores_of(self, tls: TlsSettings) -> ClientSecurity:
        """The certificates and keys of `tls`, and all else as it is."""
        return self if self.tls is None else replace(self, tls=self.tls.with_stores_of(tls))


OPEN = ClientSecurity()


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """The security in a client's properties ``security.protocol``, ``sasl.*`` and ``ssl.*``. Raises
    :class:`ConfigError`."""
    key = "security.protocol"
    protocol = properties.get(key, "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(key, protocol, f"it must be one of {', '.join(PROTOCOLS)}")
    keys = SecurityKeys(properties)
    credential = None
    if protocol.startswith("SASL_"):
        key = "sasl.mechanism"
        mechanism = check_mechanism(key, properties.get(key, "GSSAPI").strip().upper())
        credential = _client_credential(properties, mechanism)
    tls = tls_settings(keys, is_server=False) if protocol.endswith("SSL") else None
    return ClientSecurity(protocol, tls, credential)


def _client_credential(properties: Mapping[str, str], mechanism: str) -> SaslCredential:
    """The credential of ``sasl.jaas.config``, or of librdkafka's ``sasl.username`` and ``sasl.password``."""
    key = "sasl.jaas.config"
    if mechanism == OAUTHBEARER:
        options: Mapping[str, str] = {}
        if key in properties:
            options = parse_login_module(key, properties[key], mechanism).options
        return SaslCredential(mechanism, login=oauth_login(SecurityKeys(properties), options))
    if key in properties:
        module = parse_login_module(key, properties[key], mechanism)
        found = credential_of_login(key, module.username, module.password, mechanism)
        return replace(found, by_token=module.is_token and mechanism != PLAIN)
    user, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    return credential_of_login(key, user, password, mechanism)


def credential_of_login(key: str, user: str, password: str, mechanism: str) -> SaslCredential:
    """A credential of user and password. Raises :class:`ConfigError` if one of them is missing."""
    if not user or not password:
        raise ConfigError(key, "(hidden)", f"{mechanism} needs its username and password")
    return SaslCredential(mechanism, user, password)


class SecureDialer:
    """Opens one kind of outgoing connections of a node or client."""

    def __init__(self, ports: Ports, security: ClientSecurity, purpose: str) -> None:
        """`purpose` names these connections in log events."""
        self.security = security
        self._ports = ports
        self._handshakes = Handshakes(ports, purpose)
        login = None if security.sasl is None else security.sasl.login
        self._tokens = None if login is None else TokenKeeper(login)

    def connect(self, endpoint: Endpoint, receiver: Receiver) -> None:
        """Connect as ``ports.network.connect`` does."""
        tls, ports = self.security.tls, self._ports
        if tls is None:
            ports.network.connect(endpoint, receiver)
            return
        if not isinstance(ports, HasSecrets):
            raise ConfigError("security.protocol", self.security.protocol, "there is no TLS here")
        secrets = ports.secrets

        def make(incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
            found: ssl.SSLObject = secrets.open_tls(
                tls, incoming, outgoing, is_server=False, server_name=endpoint.host
            )
            return found

        stream = TlsStream(receiver, make, self._handshakes, ports.wakeups.call_soon)
        ports.network.connect(endpoint, stream)

    def exchange(self, done: Callable[[ClientExchange | SaslError], None]) -> None:
        """Call `done` with a new SASL exchange, or with the error why there is none."""
        credential, ports = self.security.sasl, self._ports
        assert credential is not None
        if self._tokens is not None:
            self._tokens.exchange(ports, done)
        elif isinstance(ports, HasSecrets):
            done(credential.password_exchange(ports.secrets.token_bytes))
        else:
            done(credential.password_exchange(ports.rng("sasl").randbytes))
