"""Security of outgoing connections: protocol, TLS settings and credential, and how a connection gets them.

`ClientSecurity` is the value, which may be sent to other processes; `client_keys` makes it of a client's
properties. A `SecureDialer` uses it to open connections with TLS and SASL, and loads neither where the value
asks for none: a Python worker of Spark begins with these imports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from barnabas.ports import ClientPorts, HasSecrets, Receiver
from barnabas.security import SaslError
from barnabas.types import Endpoint

if TYPE_CHECKING:
    import ssl

    from barnabas.security.oauth.login import TokenKeeper
    from barnabas.security.sasl_client import ClientExchange, SaslCredential
    from barnabas.security.tls_settings import TlsSettings
    from barnabas.security.tls_stream import Handshakes


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


class SecureDialer:
    """Opens one kind of outgoing connections of a node or client."""

    def __init__(self, ports: ClientPorts, security: ClientSecurity, purpose: str) -> None:
        """`purpose` names these connections in log events."""
        self.security = security
        self._ports = ports
        self._purpose = purpose
        self._handshakes: Handshakes | None = None
        self._tokens: TokenKeeper | None = None

    def connect(self, endpoint: Endpoint, receiver: Receiver) -> None:
        """Connect as ``ports.network.connect`` does."""
        tls, ports = self.security.tls, self._ports
        if tls is None:
            ports.network.connect(endpoint, receiver)
            return
        if not isinstance(ports, HasSecrets):
            from barnabas.config.definition import ConfigError

            raise ConfigError("security.protocol", self.security.protocol, "there is no TLS here")
        from barnabas.security.tls_stream import Handshakes, TlsStream

        secrets = ports.secrets

        def make(incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
            found: ssl.SSLObject = secrets.open_tls(
                tls, incoming, outgoing, is_server=False, server_name=endpoint.host
            )
            return found

        if self._handshakes is None:
            self._handshakes = Handshakes(ports, self._purpose)
        stream = TlsStream(receiver, make, self._handshakes, ports.wakeups.call_soon)
        ports.network.connect(endpoint, stream)

    def exchange(self, done: Callable[[ClientExchange | SaslError], None]) -> None:
        """Call `done` with a new SASL exchange, or with the error why there is none."""
        credential, ports = self.security.sasl, self._ports
        assert credential is not None
        if credential.login is not None:
            from barnabas.security.oauth.login import TokenKeeper

            if self._tokens is None or self._tokens.login != credential.login:
                self._tokens = TokenKeeper(credential.login)
            self._tokens.exchange(ports, done)
        elif isinstance(ports, HasSecrets):
            done(credential.password_exchange(ports.secrets.token_bytes))
        else:
            done(credential.password_exchange(ports.rng("sasl").randbytes))
