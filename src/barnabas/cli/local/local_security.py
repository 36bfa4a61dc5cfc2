"""The files of ``barnabas up --secure``: an authority, a certificate per node, users, and clients' files.

    DIR/security/ca.pem          the authority's certificate, which clients trust
    DIR/security/authority.pem   its key and certificate, for renewals
    DIR/security/node-1.pem      a node's key and certificate
    DIR/security/passwords.json  of the users, for later starts
    DIR/security/token-key       the key of delegation tokens
    DIR/client.properties        the administrator, for Kafka's tools, this command line and Spark
    DIR/user.properties          a user who may read and write topics, and nothing else

Clients and brokers meet on one SASL_SSL listener with PLAIN and SCRAM, controllers on one of mutual TLS.
An authorizer decides on every node: the administrator may do everything, the user what `user_acls` say, a
user that is added later nothing until an entry allows it.
Files with a secret are readable by their owner only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli.failure import Failure
from barnabas.cli.local.private_files import write_private
from barnabas.config.coordination import STANDARD_AUTHORIZER
from barnabas.config.properties import format_properties
from barnabas.security.authorization.acls import (
    WILDCARD,
    Acl,
    AclResourceType,
    Operation,
    PatternType,
    Permission,
)

if TYPE_CHECKING:
    from barnabas.wire.schema import Message

AUTHORITY_DAYS, CERTIFICATES_DAYS = 3650, 825
ADMIN, USER, BROKER = "admin", "user", "broker"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
CLIENTS_MECHANISM = "SCRAM-SHA-512"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PIPELINES_TOPIC = "__barnabas_pipelines"
"""The topic in which exactly-once pipelines keep their tokens (`barnabas.pipeline.write.tokens`)."""


def user_acls() -> list[Acl]:
    """The entries of `USER` in a new cluster: produce and consume, by groups and in transactions, and run
    pipelines. Topics that Kafka calls internal are not its own."""
    from barnabas.broker.controller_client.auto_topic_creation import INTERNAL_TOPICS

    topic, group = AclResourceType.TOPIC, AclResourceType.GROUP
    allowed = (
        (topic, WILDCARD, Operation.READ),
        (topic, WILDCARD, Operation.WRITE),
        (topic, PIPELINES_TOPIC, Operation.CREATE),
        (group, WILDCARD, Operation.READ),
        (AclResourceType.TRANSACTIONAL_ID, WILDCARD, Operation.WRITE),
        (AclResourceType.TRANSACTIONAL_ID, WILDCARD, Operation.TWO_PHASE_COMMIT),
    )
    denied = [(topic, name, Operation.ALL) for name in sorted(INTERNAL_TOPICS)]
    return [
        Acl(kind, name, PatternType.LITERAL, f"User:{USER}", WILDCARD, operation, permission)
        for entries, permission in ((allowed, Permission.ALLOW), (denied, Permission.DENY))
        for kind, name, operation in entries
    ]


class LocalSecurity:
    """The secrets of the cluster in `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path / "security"

    @property
    def is_there(self) -> bool:
        return (self._folder / "passwords.json").exists()

    @property
    def client_file(self) -> Path:
        return self._path / "client.properties"

    def create(self, node_ids: Sequence[int]) -> None:
        """Make what is missing. Raises :class:`Failure`."""
        try:
            import cryptography  # noqa: F401
        except ImportError as error:
            raise Failure("--secure needs a package: pip install 'barnabas[security]'") from error
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            missing = [node for node in node_ids if not self.certificate(node).exists()]
            if missing:
                self._issue(missing, CERTIFICATES_DAYS)
            if not self.is_there:
                passwords = {name: os.urandom(18).hex() for name in (ADMIN, USER, BROKER)}
                write_private(self._folder / "passwords.json", json.dumps(passwords))
            if not self._token_key.exists():
                write_private(self._token_key, os.urandom(32).hex())
            write_private(
                self.client_file, format_properties(self.client_properties(ADMIN), "For clients.")
            )
            user = format_properties(self.client_properties(USER), "For clients.")
            write_private(self._path / "user.properties", user)
        except OSError as error:
            raise Failure(f"{self._folder} cannot be written: {error.strerror}") from error

    def nodes(self) -> list[int]:
        """Those that have a certificate."""
        files = self._folder.glob("node-*.pem")
        return sorted(int(file.stem.removeprefix("node-")) for file in files)

    def renew(self, node_ids: Sequence[int], days: float = CERTIFICATES_DAYS) -> bool:
        """Give nodes new certificates and keys of `days`; whether the authority is a new one, which clients
        have to read. Raises :class:`Failure`."""
        try:
            return self._issue(node_ids, days)
        except OSError as error:
            raise Failure(f"{self._folder} cannot be written: {error.strerror}") from error

    def _issue(self, node_ids: Sequence[int], days: float) -> bool:
        from barnabas.cli.local.certificate_authority import Authority, read_authority

        kept = self._folder / "authority.pem"
        authority = read_authority(kept.read_text(), days) if kept.exists() else None
        is_new = authority is None
        if authority is None:
            made = Authority(days=max(AUTHORITY_DAYS, days + 1))
            write_private(kept, made.pem_with_key)
            authority = read_authority(made.pem_with_key, days)
            assert authority is not None
            trusted = self._folder / "ca.pem"
            former = trusted.read_text() if trusted.exists() else ""
            write_private(trusted, former + made.pem)
        for node in node_ids:
            write_private(self.certificate(node), authority.identity(f"node-{node}").pem())
        return is_new

    def node_properties(self, node_id: int) -> dict[str, str]:
        """The properties that make a node's listeners secure."""
        users = " ".join(
            f'user_{name}="{password}"' for name, password in self._passwords().items()
        )
        own = f'username="{BROKER}" password="{self.password(BROKER)}"'
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificate(node_id)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._folder / "ca.pem"),
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": f"RULE:^CN=node-[0-9]+,.*$/{BROKER}/,DEFAULT",
            "sasl.enabled.mechanisms": MECHANISMS,
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {own} {users};",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{BROKER}",
            **self._tokens(),
        }

    def client_properties(self, user: str) -> dict[str, str]:
        """The properties of a client that is `user`."""
        login = f'username="{user}" password="{self.password(user)}"'
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": CLIENTS_MECHANISM,
            "sasl.jaas.config": f"{SCRAM_MODULE} required {login};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._folder / "ca.pem"),
        }

    def bootstrap_records(self) -> list[Message]:
        """The first records of the cluster: the users' SCRAM credentials, and the entries of `user_acls`."""
        from barnabas.config.meta_properties import random_uuid
        from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
        from barnabas.security.scram_credentials import parse_credential

        credentials = [
            parse_credential(f"{mechanism}=[name={name},password={password}]", os.urandom)
            for name, password in self._passwords().items()
            for mechanism in MECHANISMS.split(",")[1:]
        ]
        acls = [
            AccessControlEntryRecord(id=random_uuid(os.urandom), **acl._asdict())
            for acl in user_acls()
        ]
        return [*credentials, *acls]

    @property
    def _token_key(self) -> Path:
        return self._folder / "token-key"

    def _tokens(self) -> dict[str, str]:
        """The key of delegation tokens; a cluster of an earlier version may have none."""
        if not self._token_key.exists():
            return {}
        return {"delegation.token.secret.key": self._token_key.read_text().strip()}

    def certificate(self, node_id: int) -> Path:
        """A node's key and certificate."""
        return self._folder / f"node-{node_id}.pem"

    def password(self, user: str) -> str:
        return self._passwords()[user]

    def _passwords(self) -> Mapping[str, str]:
        found: Mapping[str, str] = json.loads((self._folder / "passwords.json").read_text())
        return found
