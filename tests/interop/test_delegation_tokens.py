"""Delegation tokens beside Apache Kafka: the same answers, and Kafka's own tools on ours."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.client.delegation_tokens import DelegationToken
from barnabas.config.coordination import STANDARD_AUTHORIZER
from barnabas.config.properties import format_properties
from barnabas.host.client import Connected, connect
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.testing.cluster import Cluster
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from barnabas.wire.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.wire.schema import Message
from tests.interop.node_process import NodeProcess
from tests.peers import CLASS_PATH
from tests.process.launch import wait_until

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.timeout(240),
]  # fmt: skip
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
USERS = " ".join(f'user_{name}="{name}-secret"' for name in ("root", "alice", "bob", "carol"))
PATIENCE_S = 60.0
NOT_FOUND = 62


class OneNode:
    """A combined node with SASL, an authorizer, a key for tokens and a listener for strangers."""

    def __init__(self, directory: Path, java: bool) -> None:
        client, stranger, controller = FreePorts().take(3)
        self.bootstrap, self.open = f"127.0.0.1:{client}", f"127.0.0.1:{stranger}"
        properties = (
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\ninter.broker.listener.name=SASL_PLAINTEXT\n"
            f"listeners=SASL_PLAINTEXT://{self.bootstrap},PLAINTEXT://{self.open},"
            f"CONTROLLER://127.0.0.1:{controller}\n"
            "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT\n"
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n"
            "sasl.mechanism.inter.broker.protocol=PLAIN\n"
            "listener.name.sasl_plaintext.plain.sasl.jaas.config="
            f'{PLAIN} username="root" password="root-secret" {USERS};\n'
            f"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={SCRAM}\n"
            f"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={SCRAM}\n"
            "delegation.token.secret.key=the-key-of-both\ndelegation.token.max.lifetime.ms=600000\n"
            f"log.dirs={directory}/data\noffsets.topic.replication.factor=1\n"
            f"authorizer.class.name={STANDARD_AUTHORIZER}\n"
            "super.users=User:root;User:ANONYMOUS\nallow.everyone.if.no.acl.found=false\n"
        )
        self._process = NodeProcess(directory, properties, java=java)
        self._clients: dict[str, Connected] = {}
        self._stack = ExitStack()
        self.hmacs: dict[str, bytes] = {}
        self.ids: dict[str, str] = {}

    def client(self, user: str) -> Connected:
        """Of a user, without credentials (empty), or by the token of a name that begins with #."""
        if user not in self._clients:
            properties = {"security.protocol": "PLAINTEXT"}
            if user.startswith("#"):
                token = DelegationToken(self.ids[user], "", "", (), 0, 0, 0, self.hmacs[user])
                properties = token.properties({"sasl.mechanism": "SCRAM-SHA-256"})
            elif user:
                properties = {
                    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": f'{PLAIN} username="{user}" password="{user}-secret";',
                }  # fmt: skip
            where = self.bootstrap if user else self.open
            opened = connect(where, client_id="tokens", properties=properties)
            self._clients[user] = self._stack.enter_context(opened)
        return self._clients[user]

    def ask(self, user: str, request: Message, version: int | None = None) -> Any:
        connected = self.client(user)
        client = connected.client

        async def asked() -> Any:
            await client.cluster.refresh(timeout_ms=10_000)
            node = next(iter(client.cluster.brokers))
            return await client.ask_node(node, request, timeout_ms=10_000, at_most=version)

        return connected.call(asked())

    def is_up(self) -> bool:
        try:
            self.ask("root", DescribeDelegationTokenRequest(owners=[]))
        except Exception:  # noqa: BLE001 - whatever a node says that is not ready yet
            return False
        return True

    def allow(self, kind: int, name: str, operation: int, user: str) -> None:
        entry = AclCreation(
            resource_type=kind, resource_name=name, principal=f"User:{user}", host="*",
            operation=operation, permission_type=3,
        )  # fmt: skip
        answer = self.ask("root", CreateAclsRequest(creations=[entry]))
        assert [result.error_code for result in answer.results] == [0]

    def close(self) -> None:
        self._stack.close()
        self._process.stop()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OneNode, OneNode]]:
    """Apache Kafka's, and ours."""
    directory = tmp_path_factory.mktemp("tokens")
    pair = (OneNode(directory / "kafka", True), OneNode(directory / "ours", False))
    try:
        for node in pair:
            wait_until(node.is_up, f"{node.bootstrap} answers")
        yield pair
    finally:
        for node in pair:
            node.close()


def told(answer: Any) -> dict[str, Any]:
    """What an answer says, without ids, secrets and the present."""
    found = {"code": answer.error_code}
    if hasattr(answer, "tokens"):
        found["tokens"] = sorted(
            (
                token.principal_name, token.token_requester_principal_name,
                tuple(renewer.principal_name for renewer in token.renewers), len(token.hmac),
                token.max_timestamp - token.issue_timestamp,
                token.expiry_timestamp - token.issue_timestamp < 590_000,
            )
            for token in answer.tokens
        )  # fmt: skip
    if hasattr(answer, "token_id"):
        found |= {
            "owner": (answer.principal_type, answer.principal_name),
            "requester": answer.token_requester_principal_name,
            "id": len(answer.token_id), "hmac": len(answer.hmac),
            "lasts": answer.max_timestamp_ms - answer.issue_timestamp_ms,
            "expires": answer.expiry_timestamp_ms - answer.issue_timestamp_ms,
            "error": answer.issue_timestamp_ms if answer.error_code else 0,
        }  # fmt: skip
    elif hasattr(answer, "expiry_timestamp_ms"):
        found["expires"] = min(answer.expiry_timestamp_ms, 1)
    return found


def renewers(*names: str, kind: str = "User") -> list[CreatableRenewers]:
    return [CreatableRenewers(principal_type=kind, principal_name=name) for name in names]


def creation(owner: str | None = None, lasts: int = -1, by: Any = ()) -> Message:
    return CreateDelegationTokenRequest(
        owner_principal_type=owner and "User", owner_principal_name=owner,
        renewers=by, max_lifetime_ms=lasts,
    )  # fmt: skip


def owners(*names: str) -> Message:
    asked = [DescribeDelegationTokenOwner(principal_type="User", principal_name=n) for n in names]
    return DescribeDelegationTokenRequest(owners=asked)


EVERY = DescribeDelegationTokenRequest(owners=None)


def compare(
    pair: tuple[OneNode, OneNode],
    user: str,
    request: Any,
    version: int | None = None,
    token: str = "",
) -> dict[str, Any]:
    """The same answer of both; `token` names the token that is created, or whose HMAC is sent."""
    answers = [answer_of(node, user, request, version, token) for node in pair]
    if answers[0]["code"] == NOT_FOUND != answers[1]["code"]:
        # Apache Kafka's controller learns of its own tokens a moment after the answer.
        def knows() -> bool:
            answers[0] = answer_of(pair[0], user, request, version, token)
            return bool(answers[0]["code"] != NOT_FOUND)

        wait_until(knows, "Kafka's controller knows the token")
    if (
        "tokens" in answers[0] and answers[0] != answers[1]
    ):  # brokers learn of changes a moment later

        def agree() -> bool:
            answers[:] = [answer_of(node, user, request, version, token) for node in pair]
            return answers[0] == answers[1]

        with suppress(AssertionError):
            wait_until(agree, "both tell the same tokens")
    assert answers[1] == answers[0], f"{user} {request}"
    return answers[0]


def answer_of(
    node: OneNode, user: str, request: Any, version: int | None, token: str
) -> dict[str, Any]:
    if token and hasattr(request, "hmac"):
        request.hmac = node.hmacs[token]
    answer = node.ask(user, request, version)
    if token and getattr(answer, "token_id", ""):
        node.hmacs[token], node.ids[token] = bytes(answer.hmac), answer.token_id
    return told(answer)


def wait_to_see(nodes: tuple[OneNode, OneNode], user: str, count: int) -> None:
    """Brokers learn of tokens and entries a moment after the answer."""
    for node in nodes:
        wait_until(lambda n=node: len(n.ask(user, EVERY).tokens) == count, f"{user} sees {count}")  # type: ignore[misc]


def test_each_request_is_answered_as_apache_kafka_does(nodes: tuple[OneNode, OneNode]) -> None:
    def ask(user: str, request: Any, token: str = "", version: int | None = None) -> Any:
        return compare(nodes, user, request, version, token)

    made = ask("alice", creation(by=renewers("bob")), "#1")
    assert made["code"] == 0 and made["hmac"] == 64
    for version in (1, 2):
        assert (
            ask("alice", CreateDelegationTokenRequest(max_lifetime_ms=5_000), "#v", version)["code"]
            == 0
        )
        assert (
            ask("alice", ExpireDelegationTokenRequest(expiry_time_period_ms=-1), "#v", version)[
                "code"
            ]
            == 0
        )
        ask("alice", EVERY, version=version)
    assert ask("alice", creation("carol"))["code"] == 65
    assert ask("alice", creation("alice"), "#own")["code"] == 0
    assert ask("alice", creation(by=renewers("g", kind="Group")))["code"] == 67
    assert ask("alice", creation("carol", by=renewers("g", kind="Group")))["code"] == 65
    for node in nodes:
        node.allow(AclResourceType.USER, "User:carol", Operation.CREATE_TOKENS, "alice")
        wait_until(
            lambda n=node: n.ask("alice", creation("carol", 1)).error_code != 65,  # type: ignore[misc]
            "the entry counts",
        )
    assert ask("alice", creation("carol", lasts=30_000), "#2")["owner"] == ("User", "carol")
    renewal, expiry = RenewDelegationTokenRequest, ExpireDelegationTokenRequest
    assert ask("alice", renewal(renew_period_ms=-1), "#2")["code"] == 63
    assert ask("carol", renewal(renew_period_ms=-1), "#2")["code"] == 0
    assert ask("bob", renewal(renew_period_ms=1_000_000_000), "#1")["code"] == 0
    assert ask("carol", expiry(expiry_time_period_ms=-1), "#1")["code"] == 63
    assert ask("bob", expiry(expiry_time_period_ms=400_000), "#1")["expires"] == 1
    assert ask("bob", renewal(hmac=b"nothing"))["code"] == 62
    assert ask("bob", expiry(hmac=b"x" * 64, expiry_time_period_ms=-1))["code"] == 62
    see_each_other(nodes, ask)
    not_allowed(nodes, ask)
    assert ask("alice", expiry(expiry_time_period_ms=-1), "#own") == {"code": 0, "expires": 1}
    assert ask("alice", renewal(renew_period_ms=1), "#own")["code"] == 62


def see_each_other(nodes: tuple[OneNode, OneNode], ask: Any) -> None:
    """Who sees whose tokens."""
    wait_to_see(nodes, "root", 4)
    assert len(ask("alice", EVERY)["tokens"]) == 4
    assert len(ask("bob", EVERY)["tokens"]) == 1
    assert len(ask("carol", EVERY)["tokens"]) == 2  # one has expired
    assert len(ask("root", EVERY)["tokens"]) == 4
    assert ask("root", owners()) == {"code": 0, "tokens": []}
    assert len(ask("root", owners("bob"))["tokens"]) == 1
    assert len(ask("root", owners("carol", "alice"))["tokens"]) == 4
    assert len(ask("carol", owners("alice"))["tokens"]) == 2  # alice has requested them
    assert ask("bob", owners("carol"))["tokens"] == []
    for node in nodes:
        node.allow(AclResourceType.USER, "User:alice", Operation.DESCRIBE_TOKENS, "carol")
        node.allow(AclResourceType.DELEGATION_TOKEN, node.ids["#2"], Operation.DESCRIBE, "bob")
    wait_to_see(nodes, "carol", 4)
    wait_to_see(nodes, "bob", 2)
    assert len(ask("carol", EVERY)["tokens"]) == 4
    assert len(ask("bob", EVERY)["tokens"]) == 2


def not_allowed(nodes: tuple[OneNode, OneNode], ask: Any) -> None:
    """Who has authenticated by a token or not at all; a super user as well."""
    for who in ("#1", ""):
        assert ask(who, creation())["code"] == 64
        assert ask(who, creation("carol"))["code"] == 64
        assert ask(who, EVERY)["code"] == 64
        for request in (
            RenewDelegationTokenRequest(renew_period_ms=-1),
            ExpireDelegationTokenRequest(expiry_time_period_ms=-1),
        ):
            assert ask(who, request, "#1") == {"code": 64, "expires": -1}


# -- Kafka's tools on ours ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure() -> Iterator[Cluster]:
    with Cluster(nodes=1, secure=True) as cluster:
        yield cluster


def kafka(main: str, *words: str, given: str = "") -> str:
    done = subprocess.run(
        ["java", "-Xmx200m", "-cp", CLASS_PATH, main, *words],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, input=given,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_kafkas_tools_make_and_use_a_token(secure: Cluster, tmp_path: Path) -> None:
    tool = "org.apache.kafka.tools.DelegationTokenCommand"
    where = ["--bootstrap-server", secure.bootstrap, "--command-config", str(secure.client_file)]
    made = kafka(tool, *where, "--create", "--max-life-time-period", "-1",
                 "--renewer-principal", "User:user")  # fmt: skip
    found = re.search(r"^(\S{22})\s+(\S{80,})\s+User:admin", made, re.MULTILINE)
    assert found is not None, made
    token_id, hmac = found.groups()
    token = DelegationToken(token_id, "", "", (), 0, 0, 0, b"")
    properties = token.properties(secure.client_properties)
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(
        'password=""', f'password="{hmac}"'
    )
    by_token = tmp_path / "token.properties"
    by_token.write_text(format_properties(properties, "By a token."))
    kafka("org.apache.kafka.tools.TopicCommand", *where, "--create", "--topic", "t")
    clients = ["--bootstrap-server", secure.bootstrap, "--topic", "t"]
    sent = kafka("org.apache.kafka.tools.ConsoleProducer", *clients,
                 "--command-config", str(by_token), given="one\ntwo\n")  # fmt: skip
    read = kafka("org.apache.kafka.tools.consumer.ConsoleConsumer", *clients, "--from-beginning",
                 "--max-messages", "2", "--timeout-ms", "20000",
                 "--command-config", str(by_token))  # fmt: skip
    assert "one\ntwo" in read, sent + read
    again = kafka(tool, "--bootstrap-server", secure.bootstrap, "--command-config", str(by_token),
                  "--create", "--max-life-time-period", "-1")  # fmt: skip
    assert "Delegation Token requests are not allowed" in again
    described = kafka(tool, *where, "--describe", "--owner-principal", "User:admin")
    assert token_id in described
    renewed = kafka(tool, *where, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation" in renewed, renewed
    expired = kafka(tool, *where, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in expired, expired
    described = kafka(tool, *where, "--describe", "--owner-principal", "User:admin")
    assert token_id not in described
    refused = kafka("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", secure.bootstrap,
                    "--command-config", str(by_token), "--list")  # fmt: skip
    assert "invalid credentials" in refused, refused
