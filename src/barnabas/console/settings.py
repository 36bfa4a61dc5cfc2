"""The settings of one console process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.config.providers import resolve
from barnabas.host.secrets.config_files import HostSources
from barnabas.security.client_keys import client_security
from barnabas.security.client_security import ClientSecurity

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SASL_USER, SASL_PASSWORD, JAAS = "sasl.username", "sasl.password", "sasl.jaas.config"
MECHANISM = "sasl.mechanism"


@dataclass(frozen=True)
class ConsoleSettings:
    """The cluster's address, the console's address, and what its users may do."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)
    """The client's properties, with variables of their ``config.providers``."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: a free port."""
    read_only: bool = False
    as_configured: bool = False
    """Whether all visitors ask as the user of `properties`, without signing in."""
    names: tuple[str, ...] = ()
    """Names of hosts, beside `host`, under which browsers may ask for the console."""
    schema_registry: str = ""
    """The URL of a schema registry with Confluent's interface; empty: values stay bytes."""
    registry_user: tuple[str, str] = field(default=("", ""), repr=False)
    """The user and the password for it."""
    certificate: str = ""
    key: str = ""
    """Files of the console's own TLS; empty: plain HTTP."""

    @property
    def protocol(self) -> str:
        return self.properties.get("security.protocol", "PLAINTEXT").strip().upper()

    @property
    def needs_sign_in(self) -> bool:
        """Whether a visitor has to give a user and a password of the cluster."""
        return self.protocol.startswith("SASL_") and not self.as_configured

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"

    def security(self) -> ClientSecurity:
        """The security of the configured user. Raises ``ConfigError``."""
        return client_security(resolve(self.properties, HostSources()).values)

    def security_of_user(self, user: str, password: str, mechanism: str) -> ClientSecurity:
        """The security of a user who signs in. Variables are resolved before the user's words are added, so
        that a visitor cannot read files or variables of this process. Raises ``ConfigError``."""
        values = dict(resolve(self.properties, HostSources()).values)
        values.pop(JAAS, None)
        values.update({MECHANISM: mechanism, SASL_USER: user, SASL_PASSWORD: password})
        return client_security(values)
