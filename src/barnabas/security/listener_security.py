"""The demands of each listener of a node on a peer, and what the node shows others, by its configuration.

Keys with a listener's prefix win (``listener.name.<listener>.``, and behind it a mechanism for
``sasl.jaas.config`` and ``connections.max.reauth.ms``). Everything is checked at the start: what does not fit
together is one sentence (``ConfigError``). Source: KIP-103, 226; ``ChannelBuilders`` of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from barnabas.config.definition import ConfigError
from barnabas.config.listeners import ListenerSpec
from barnabas.config.node import NodeConfig
from barnabas.config.providers import Resolved
from barnabas.ports import HasSecrets, Ports, Receiver
from barnabas.security.certificates import read_certificate
from barnabas.security.client_keys import credential_of_login
from barnabas.security.client_security import ClientSecurity
from barnabas.security.jaas import (
    OAUTHBEARER,
    PLAIN,
    LoginModule,
    check_mechanism,
    parse_login_module,
)
from barnabas.security.oauth.issuer_keys import IssuerSettings
from barnabas.security.oauth.settings import issuer_settings, oauth_login
from barnabas.security.principal_mapping import (
    ANONYMOUS,
    NoRuleError,
    PrincipalMapping,
    parse_rules,
)
from barnabas.security.sasl_client import SaslCredential
from barnabas.security.sasl_server import (
    Credentials,
    SaslAuthenticator,
    SaslListener,
    SaslSettings,
    Tokens,
)
from barnabas.security.tls_settings import SecurityKeys, TlsSettings, tls_settings
from barnabas.security.tls_stream import Handshakes, TlsStream
from barnabas.wire.connection.authenticator import Anonymous, Authenticator, Identified
from barnabas.wire.connection.server_connection import ServerConnection


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """One listener's settings, checked."""

    name: str
    protocol: str
    tls: TlsSettings | None
    mapping: PrincipalMapping
    sasl: SaslSettings | None


def prefix_of(listener: str) -> str:
    return f"listener.name.{listener.lower()}."


def listener_security(config: NodeConfig, spec: ListenerSpec) -> ListenerSecurity:
    """Raises :class:`ConfigError`."""
    keys = SecurityKeys(config.texts, prefix_of(spec.name))
    tls = tls_settings(keys, is_server=True) if spec.protocol.endswith("SSL") else None
    sasl = None
    if spec.protocol.startswith("SASL_"):
        sasl = _sasl_settings(config, keys)
        if tls is not None and keys.own_text("ssl.client.auth") is None:
            # As in Kafka: with SASL_SSL only a listener's own key makes clients show certificates.
            tls = _without_client_auth(tls)
    return ListenerSecurity(
        spec.name, spec.protocol, tls, parse_rules(keys.word("ssl.principal.mapping.rules")), sasl
    )


def _without_client_auth(tls: TlsSettings) -> TlsSettings:
    return TlsSettings(
        tls.keystore, tls.truststore, tls.versions, tls.ciphers, "none", tls.checks_names
    )


def _sasl_settings(config: NodeConfig, keys: SecurityKeys) -> SaslSettings:
    key = "sasl.enabled.mechanisms"
    given = cast("list[str] | None", keys.value(key)) or []
    mechanisms = tuple(check_mechanism(keys.name(key), mechanism) for mechanism in given)
    if not mechanisms:
        raise ConfigError(keys.name(key), "", "a SASL listener needs a mechanism")
    users: dict[str, str] = {}
    if PLAIN in mechanisms:
        name, module = login_module(keys, PLAIN)
        if module is None or not module.users:
            raise ConfigError(name, "(hidden)", 'PLAIN needs a user: user_<name>="<password>"')
        users = module.users
    issuer: IssuerSettings | None = None
    if OAUTHBEARER in mechanisms:
        _, module = login_module(keys, OAUTHBEARER, is_optional=True)
        issuer = issuer_settings(keys, {} if module is None else module.options)
    reauth = {mechanism: _reauthentication_ms(keys, mechanism) for mechanism in mechanisms}
    return SaslSettings(
        mechanisms,
        users,
        reauth,
        config.int_value("connection.failed.authentication.delay.ms"),
        config.int_value("sasl.server.max.receive.size"),
        issuer,
    )


def _reauthentication_ms(keys: SecurityKeys, mechanism: str) -> int:
    own = keys.own_text(f"{mechanism.lower()}.connections.max.reauth.ms")
    if own is None:
        return cast(int, keys.value("connections.max.reauth.ms"))
    if not own.strip().isdecimal():
        raise ConfigError("connections.max.reauth.ms", own, "it must be a whole number")
    return int(own)


def login_module(
    keys: SecurityKeys, mechanism: str, *, is_optional: bool = False
) -> tuple[str, LoginModule | None]:
    """(the key that has it, or should; the module of `mechanism`). `is_optional`: the mechanism may do
    without, where the listeners' common module is another's. Raises :class:`ConfigError`."""
    own = f"{mechanism.lower()}.sasl.jaas.config"
    text = keys.own_text(own)
    if text is not None:
        return keys.prefix + own, parse_login_module(keys.prefix + own, text, mechanism)
    text = keys.text("sasl.jaas.config")
    if text is None or (is_optional and "OAuthBearerLoginModule" not in text):
        return keys.prefix + own, None
    name = keys.name("sasl.jaas.config")
    return name, parse_login_module(name, text, mechanism)


# -- outgoing connections of a node ------------------------------------------------------------------------


def between_brokers(config: NodeConfig) -> ClientSecurity:
    """How this node connects to brokers. Raises :class:`ConfigError`."""
    name = config.inter_broker_listener_name
    protocol = config.protocol_of(name)
    key = "sasl.mechanism.inter.broker.protocol"
    return _outgoing(config, name, protocol, key, enabled=config.is_broker)


def to_controllers(config: NodeConfig) -> ClientSecurity:
    """How this node connects to controllers. Raises :class:`ConfigError`."""
    name = config.controller_listener_names[0]
    protocol = config.protocol_of(name)
    key = "sasl.mechanism.controller.protocol"
    return _outgoing(config, name, protocol, key, enabled=config.is_controller)


def _outgoing(
    config: NodeConfig, listener: str, protocol: str, key: str, *, enabled: bool
) -> ClientSecurity:
    keys = SecurityKeys(config.texts, prefix_of(listener))
    tls = tls_settings(keys, is_server=False) if protocol.endswith("SSL") else None
    sasl = _own_credential(keys, key, enabled) if protocol.startswith("SASL_") else None
    return ClientSecurity(protocol, tls, sasl)


def _own_credential(keys: SecurityKeys, key: str, enabled: bool) -> SaslCredential:
    mechanism = check_mechanism(keys.name(key), keys.word(key))
    offered = cast("list[str] | None", keys.value("sasl.enabled.mechanisms")) or []
    if enabled and mechanism not in offered:
        raise ConfigError(keys.name(key), mechanism, "sasl.enabled.mechanisms must have it")
    if mechanism == OAUTHBEARER:
        _, module = login_module(keys, mechanism, is_optional=True)
        options = {} if module is None else module.options
        return SaslCredential(mechanism, login=oauth_login(keys, options))
    name, module = login_module(keys, mechanism)
    if module is None:
        raise ConfigError(name, "(hidden)", f"{mechanism} needs its username and password")
    return credential_of_login(name, module.username, module.password, mechanism)


# -- the stages of a listener's connections -----------------------------------------------------------------


def random_bytes_of(ports: Ports) -> Callable[[int], bytes]:
    """The source of nonces and salts."""
    return (
        ports.secrets.token_bytes if isinstance(ports, HasSecrets) else ports.rng("sasl").randbytes
    )


class ListenerStages:
    """The stages between the network and one listener's connections."""

    def __init__(
        self,
        ports: Ports,
        security: ListenerSecurity,
        credentials: Credentials,
        tokens: Tokens | None = None,
    ) -> None:
        self.security = security
        self.handshakes = Handshakes(ports, security.name)
        self.sasl: SaslListener | None = None
        self._ports = ports
        if security.sasl is not None:
            self.sasl = SaslListener(
                ports, security.name, security.sasl, credentials, random_bytes_of(ports), tokens
            )

    def begin(self) -> None:
        """Read what it takes to know peers. Blocks: for the start. Raises :class:`ConfigError`."""
        if self.sasl is not None and self.sasl.issuer_keys is not None:
            self.sasl.issuer_keys.begin()

    def authenticator(self, connection: ServerConnection) -> Authenticator:
        """The authenticator of a connection that has just been made."""
        if self.sasl is not None:
            return SaslAuthenticator(self.sasl, connection)
        if self.security.tls is None:
            return Anonymous()
        try:
            return Identified(self._principal(connection))
        except (NoRuleError, ValueError) as error:
            self.handshakes.failed += 1
            connection.end("connection.unidentified", reason=str(error))
            return Anonymous()

    def _principal(self, connection: ServerConnection) -> str:
        stream = connection.transport
        der = stream.peer_certificate() if isinstance(stream, TlsStream) else None
        if der is None:
            return ANONYMOUS
        return self.security.mapping.principal(read_certificate(der).subject)

    def accept(self, inner: Callable[[], Receiver]) -> Callable[[], Receiver]:
        """The receiver of ``ports.network.listen``: `inner` behind TLS, where the listener speaks it."""
        ports = self._ports
        if self.security.tls is None:
            return inner
        if not isinstance(ports, HasSecrets):
            raise ConfigError(
                "listener.security.protocol.map", self.security.protocol, "there is no TLS here"
            )
        secrets = ports.secrets

        def make(incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
            tls = self.security.tls
            assert tls is not None
            found: ssl.SSLObject = secrets.open_tls(tls, incoming, outgoing, is_server=True)
            return found

        return lambda: TlsStream(inner(), make, self.handshakes, ports.wakeups.call_soon)

    def follow(self, configured: Resolved) -> None:
        """A node's configuration has changed: stores that can be used hold from the next connection on;
        with others the former stay, and the log says why."""
        former, ports = self.security.tls, self._ports
        if former is None or not isinstance(ports, HasSecrets):
            return
        texts = configured.values
        try:
            found = tls_settings(SecurityKeys(texts, prefix_of(self.security.name)), is_server=True)
            changed = former.with_stores_of(found)
            if changed == former:
                return
            ports.secrets.check_tls(changed, is_server=True)
        except ConfigError as error:
            ports.log("error", "broker.config_refused", reason=str(configured.hide(error)))
            return
        self.security = replace(self.security, tls=changed)
        ports.log("info", "tls.replaced", listener=self.security.name)

    def statistics(self) -> dict[str, int]:
        found = {}
        if self.security.tls is not None:
            found["tls_handshakes"] = len(self.handshakes)
            found["tls_failures"] = self.handshakes.failed
        if self.sasl is not None:
            found["authentications"] = self.sasl.succeeded
            found["authentication_failures"] = self.sasl.failed
            found["unauthenticated"] = len(self.sasl.pending)
            if self.sasl.issuer_keys is not None:
                found["issuer_keys"] = len(self.sasl.issuer_keys)
                found["issuer_failures"] = self.sasl.issuer_keys.failures
        return found
