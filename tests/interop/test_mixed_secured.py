"""A secure cluster of Apache Kafka and Barnabas: SASL_SSL for clients, between brokers and to the controller.

The controller is one's, and each has a broker; both directions run. Records are replicated between the two.
Delegation tokens are made at one, good at the other, ended at both: a token is a record of the metadata log
without its HMAC, which each node makes of the id and the key that all have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from barnabas.cli.local.certificate_authority import Authority
from barnabas.cli.local.free_ports import FreePorts
from barnabas.client.delegation_tokens import (
    DelegationToken,
    create_token,
    expire_token,
    list_tokens,
    renew_token,
)
from barnabas.client.network.connection import ChannelError
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.interop.node_process import NodeProcess
from tests.process.launch import wait_until

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.timeout(240),
]  # fmt: skip
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
USERS = " ".join(f'user_{name}="{name}-secret"' for name in ("root", "alice", "bob"))
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
DAY_MS = 86_400_000


@dataclass
class Mixed:
    """A controller, a broker of Apache Kafka and one of ours."""

    directory: Path
    java_controller: bool
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.controller_port, theirs, ours = FreePorts().take(3)
        self.brokers = {"theirs": f"127.0.0.1:{theirs}", "ours": f"127.0.0.1:{ours}"}
        authority = Authority()
        self.ca, self.identity = self.directory / "ca.pem", self.directory / "node.pem"
        self.ca.write_text(authority.pem)
        self.identity.write_text(authority.identity("node").pem())

    def start(self) -> None:
        self._node(1, "controller", f"CONTROLLER://127.0.0.1:{self.controller_port}",
                   java=self.java_controller)  # fmt: skip
        for node_id, (name, address) in enumerate(self.brokers.items(), 2):
            self._node(node_id, "broker", f"CLIENTS://{address}", java=name == "theirs")

    def _node(self, node_id: int, role: str, listeners: str, *, java: bool) -> None:
        directory = self.directory / f"node-{node_id}"
        mechanisms = "".join(
            f"listener.name.clients.{name.lower()}.sasl.jaas.config={SCRAM}\n"
            for name in MECHANISMS
        )
        nodes = f'{PLAIN} username="root" password="root-secret" {USERS};\n'
        properties = (
            f"process.roles={role}\nnode.id={node_id}\nlisteners={listeners}\n"
            f"controller.quorum.voters=1@127.0.0.1:{self.controller_port}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={self.identity}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.ca}\n"
            f"sasl.enabled.mechanisms=PLAIN,{','.join(MECHANISMS)}\n"
            "sasl.mechanism.inter.broker.protocol=PLAIN\nsasl.mechanism.controller.protocol=PLAIN\n"
            f"listener.name.clients.plain.sasl.jaas.config={nodes}"
            "listener.name.controller.sasl.enabled.mechanisms=PLAIN\n"
            f"listener.name.controller.plain.sasl.jaas.config={nodes}{mechanisms}"
            f"delegation.token.secret.key=the-key-of-all\nlog.dirs={directory}/data\n"
            "offsets.topic.replication.factor=2\n"
        )
        if role == "broker":
            properties += "inter.broker.listener.name=CLIENTS\n"
        process = NodeProcess(directory, properties, java=java)
        self.stack.callback(process.stop)

    def client(self, broker: str, properties: Mapping[str, str]) -> Connected:
        """Of one broker: what it is asked there is answered by it, or by the controller for it."""
        return connect(self.brokers[broker], properties={**self.trust, **properties})

    @property
    def trust(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def user(self, broker: str, name: str) -> Connected:
        login = f'{PLAIN} username="{name}" password="{name}-secret";'
        return self.client(broker, {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login})

    def is_whole(self) -> bool:
        try:
            with self.user("ours", "root") as client:
                return len(client.describe_cluster().brokers) == 2
        except (ChannelError, KafkaError):
            return False

    def lets_in(self, broker: str, token: DelegationToken, mechanism: str) -> bool:
        properties = token.properties({**self.trust, "sasl.mechanism": mechanism})
        try:
            with self.client(broker, properties) as client:
                client.topics()
        except ChannelError as error:
            assert error.kind == "authentication", error
            return False
        return True

    def wait_for(self, token: DelegationToken, *, is_let_in: bool) -> None:
        """Each broker learns of a change by the metadata log."""
        for broker in self.brokers:
            for mechanism in MECHANISMS:
                wait_until(
                    lambda b=broker, m=mechanism: self.lets_in(b, token, m) == is_let_in,  # type: ignore[misc]
                    f"{broker} by {mechanism}: {is_let_in}",
                )


@pytest.fixture(params=[True, False], ids=["controller-of-kafka", "controller-of-ours"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mixed]:
    mixed = Mixed(tmp_path, request.param)
    with mixed.stack:
        mixed.start()
        wait_until(mixed.is_whole, "both brokers are in the cluster")
        yield mixed


def test_a_token_of_one_is_good_at_the_other_until_it_ends(mixed: Mixed) -> None:
    with mixed.user("ours", "root") as root:
        root.create_topic("t", 2, 2, {"min.insync.replicas": "2"})  # each record is at both
    for at, elsewhere in (("ours", "theirs"), ("theirs", "ours")):
        with mixed.user(at, "alice") as alice:
            token = alice.call(create_token(alice.client, renewers=["User:bob"]))
        assert token.owner == "User:alice"
        mixed.wait_for(token, is_let_in=True)
        use(mixed, token, elsewhere)
        with mixed.user(elsewhere, "bob") as bob:
            renewed = bob.call(renew_token(bob.client, token.hmac, 2 * DAY_MS))
        assert renewed > token.expires_ms
        with mixed.user(at, "alice") as alice:
            (known,) = alice.call(list_tokens(alice.client, ["User:alice"]))
            assert known.token_id == token.token_id and known.hmac == token.hmac
        with mixed.user(elsewhere, "bob") as bob:
            bob.call(expire_token(bob.client, token.hmac))
        mixed.wait_for(token, is_let_in=False)


def use(mixed: Mixed, token: DelegationToken, broker: str) -> None:
    """Write and read; other tokens are not given to who comes with one."""
    properties = token.properties({**mixed.trust, "sasl.mechanism": MECHANISMS[0]})
    with mixed.client(broker, properties) as client:
        with client.producer() as producer:
            for number in range(20):
                producer.send(ProducerRecord("t", b"%d" % number, partition=number % 2))
        assert len(list(client.read(["t"]))) >= 20
        with pytest.raises(KafkaError) as refused:
            client.call(create_token(client.client))
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
