"""How the demo's clients reach the cluster: in the open, or by what ``up --secure`` wrote.

One value for the four kinds of client: librdkafka's settings, Spark's options, our own client's security, and
the connections to controllers, which know nodes by their certificates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.cli.local.local_security import ADMIN, LocalSecurity
from barnabas.host.secrets.config_files import security_of
from barnabas.security.client_security import OPEN, ClientSecurity


@dataclass(frozen=True)
class Access:
    """`properties` are Kafka's of a client, `user` and `password` what they say; empty in the open. Its
    ``repr`` has no secret."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    node_certificate: str = ""
    """A node's key and certificate, by which controllers let the demo ask who leads."""

    @property
    def librdkafka(self) -> dict[str, str]:
        found = {"bootstrap.servers": self.bootstrap}
        if self.properties:
            found |= {
                "security.protocol": self.properties["security.protocol"],
                "ssl.ca.location": self.properties["ssl.truststore.location"],
                "sasl.mechanism": self.properties["sasl.mechanism"],
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return found

    @property
    def spark(self) -> dict[str, str]:
        """What a job's ``[cluster]`` needs besides the servers."""
        return {f"kafka.{key}": value for key, value in self.properties.items()}

    @property
    def security(self) -> ClientSecurity:
        return security_of(self.properties) if self.properties else OPEN

    @property
    def to_controllers(self) -> ClientSecurity:
        if not self.node_certificate:
            return OPEN
        trusted = {key: self.properties[key] for key in self.properties if "truststore" in key}
        own = {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.node_certificate,
        }
        return security_of(trusted | own)


def access_to(bootstrap: str, directory: Path, properties: Mapping[str, str]) -> Access:
    """Of a cluster in `directory`; `properties` are those of its administrator, or none."""
    if not properties:
        return Access(bootstrap)
    security = LocalSecurity(directory)
    certificate = str(security.certificate(1))
    return Access(bootstrap, properties, ADMIN, security.password(ADMIN), certificate)
