"""A cluster with TLS, SASL and an authorizer moves from ZooKeeper to KRaft under load: users by SCRAM, their
entries and their quotas, made in whichever phase, hold in it and in all later ones. Needs Java and pyspark,
whose jars have ZooKeeper's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient

from barnabas.cli.local.local_security import ADMIN, USER, LocalSecurity
from barnabas.cli.local.zookeeper_users import write_users
from barnabas.config.properties import format_properties
from barnabas.zookeeper.config.settings import ACL_AUTHORIZER
from tests.process.ensembles import ended, ensemble
from tests.process.launch import barnabas, wait_until
from tests.process.migrating_machines import (
    BROKERS,
    CONTROLLERS,
    TOPIC,
    Load,
    Machines,
    back,
    check_read,
    create,
    same,
    there,
)

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(500),
]
LISTENER = "SASL_SSL"
GUARDED = "guarded"
RATE = 2000
"""Bytes in a second."""
PASSWORD = "of a user"


class SecuredMachines(Machines):
    """Each node with a certificate; clients and brokers meet by SASL, controllers by mutual TLS."""

    def __init__(self, home: Path, zookeeper: str) -> None:
        super().__init__(home, zookeeper)
        self.security = LocalSecurity(home / "secured")
        self.security.create([*BROKERS, *CONTROLLERS])
        host, _, chroot = zookeeper.partition("/")
        root = KazooClient(hosts=host)
        root.start()
        root.ensure_path(f"/{chroot}")
        root.stop()
        root.close()
        write_users(zookeeper, self.security.bootstrap_records())
        certificate = home / "certificate.properties"
        secured = self.security.node_properties(CONTROLLERS[0])
        ssl = {key: value for key, value in secured.items() if key.startswith("ssl.")}
        certificate.write_text(format_properties({**ssl, "security.protocol": "SSL"}, ""))
        self.options = ("--command-config", str(certificate))

    @property
    def of_quorum(self) -> dict[str, str]:
        quorum = super().of_quorum
        return {**quorum, "listener.security.protocol.map": f"{LISTENER}:{LISTENER},CONTROLLER:SSL"}

    def listens(self, node: int) -> dict[str, str]:
        at = f"{LISTENER}://127.0.0.1:{self.ports[node]}"
        return {"listeners": at, "listener.security.protocol.map": f"{LISTENER}:{LISTENER}"}

    def _write(self, node: int, values: dict[str, str]) -> None:
        secured = self.security.node_properties(node)
        del secured["delegation.token.secret.key"]
        secured["inter.broker.listener.name"] = LISTENER
        if "process.roles" not in values:
            secured["authorizer.class.name"] = ACL_AUTHORIZER
        super()._write(node, {**secured, **values})

    def client(self) -> dict[str, Any]:
        return self.client_of(ADMIN, self.security.password(ADMIN))

    def client_of(self, user: str, password: str) -> dict[str, Any]:
        return {
            **super().client(),
            "security.protocol": LISTENER,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.home / "secured" / "security" / "ca.pem"),
        }


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[SecuredMachines]:
    with (
        ensemble(tmp_path) as servers,
        ended(SecuredMachines(tmp_path, f"{servers.connect}/kafka")) as found,
    ):
        yield found


class Users:
    """Those that were made so far; each has an entry that lets it write, and a quota."""

    def __init__(self, machines: SecuredMachines) -> None:
        self._machines = machines
        self.known: list[str] = []
        self.refused: list[str] = []

    def check(self, phase: str) -> None:
        """A user of this phase is let in, may write when an entry says so, and is held to its quota; users of
        earlier phases still are, and those whose entry is gone may not write."""
        admin = AdminClient(self._machines.client())
        self._make(admin, phase)
        assert self._writes(phase) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        for acl in admin.create_acls([_may_write(phase)]).values():
            acl.result(20)
        rate = f"producer_byte_rate={RATE}"
        client = str(self._machines.security.client_file)
        done = barnabas("--command-config", client, "quotas", "alter", "--user", phase,
                        "--set", rate, "-b", self._machines.bootstrap)  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.known.append(phase)
        for user in self.known:
            wait_until(lambda: self._writes(user) == 0, f"{user} may not write in {phase}")  # noqa: B023
            wait_until(lambda: self._is_throttled(user), f"{user} is not throttled in {phase}")  # noqa: B023
        for user in self.refused:
            assert self._writes(user) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        if len(self.known) > 1:
            self._forbid(admin, self.known.pop(0))

    def _make(self, admin: AdminClient, user: str) -> None:
        mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(user, mechanism, PASSWORD.encode())
        for made in admin.alter_user_scram_credentials([upsertion]).values():
            made.result(20)

    def _forbid(self, admin: AdminClient, user: str) -> None:
        one = _may_write(user)
        wanted = AclBindingFilter(
            one.restype, one.name, one.resource_pattern_type, one.principal, one.host,
            one.operation, one.permission_type,
        )  # fmt: skip
        for gone in admin.delete_acls([wanted]).values():
            assert len(gone.result(20)) == 1
        wait_until(
            lambda: self._writes(user) == KafkaError.TOPIC_AUTHORIZATION_FAILED,
            f"{user} may still write",
        )
        self.refused.append(user)

    def _writes(self, user: str, size: int = 1, throttled: list[float] | None = None) -> int:
        """The error of one record, 0 for none."""
        found: list[int] = []
        client = self._machines.client_of(user, PASSWORD)
        if throttled is not None:
            client["throttle_cb"] = lambda event: throttled.append(event.throttle_time)
        producer = Producer({**client, "message.timeout.ms": 30_000})
        producer.produce(
            GUARDED, b"x" * size, partition=0,
            on_delivery=lambda error, _: found.append(error.code() if error else 0),
        )  # fmt: skip
        assert producer.flush(40) == 0, f"{user} has no answer"
        producer.poll(0.1)
        return found[0]

    def _is_throttled(self, user: str) -> bool:
        throttled: list[float] = []
        assert self._writes(user, 60_000, throttled) == 0
        return any(time_s > 0 for time_s in throttled)


def _may_write(user: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, GUARDED, ResourcePatternType.LITERAL, f"User:{user}", "*",
        AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip


def test_users_entries_and_quotas_hold_in_each_phase(machines: SecuredMachines) -> None:
    machines.begin()
    create(machines, GUARDED)
    users = Users(machines)
    users.check("in-zookeeper-mode")
    with Load(machines, machines.client_of(USER, machines.security.password(USER))) as load:
        there(machines)
        users.check("in-dual-write")
        machines.kill_leader()
        machines.change_over(1)
        users.check("with-one-under-kraft")
        same(machines)
        back(machines)
        users.check("after-the-way-back")
        there(machines)
        for node in BROKERS:
            machines.change_over(node)
        machines.kill_leader()
        users.check("under-kraft")
        same(machines)
        machines.end_migration()
        users.check("at-the-end")
        load.wait_for_more()
    check_read(machines, load)
    assert TOPIC in AdminClient(machines.client()).list_topics(timeout=5).topics
