"""How the demo's clients connect to the cluster: without security, or with the files of ``up --secure``.

One `Access` serves four kinds of clients: librdkafka, Spark, our own client, and connections to controllers,
which authenticate by a node's certificate.
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
    """`properties` are a client's in Kafka's form; `user` and `password` are those in them. All are empty
    without security. The ``repr`` has no secret."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    node_certificate: str = ""
    """Path of a node's key and certificate, with which the demo may ask controllers who leads."""

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
        """Options for a job's ``[cluster]`` besides the servers."""
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
    """The access to a cluster in `directory`; `properties` are its administrator's, empty without
    security."""
    if not properties:
        return Access(bootstrap)
    security = LocalSecurity(directory)
    certificate = str(security.certificate(1))
    return Access(bootstrap, properties, ADMIN, security.password(ADMIN), certificate)
