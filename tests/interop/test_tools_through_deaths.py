"""Apache Kafka's tools administer a secure cluster through deaths, by each mechanism over SASL_SSL.

kafka-acls, kafka-configs (users and their quotas) and kafka-delegation-tokens run without a pause while a
leader, a coordinator and the active controller die by kill -9, one at a time: before it, at that moment,
while the node is dead, and after it has returned. Every command ends well, and what was acknowledged is there
afterwards, by the tools and by our own commands. A client that came by a delegation token may not ask for
tokens (KIP-48): it runs the other tools.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.types import OFFSETS_TOPIC
from tests.clients.access import (
    Access,
    as_user,
    by_bearer_token,
    by_delegation_token,
    checking_tokens_of,
)
from tests.clients.checks import fresh
from tests.clients.connected import KINDS, PARTITIONS, dies_as
from tests.identity_provider import CLIENT, IdentityProvider
from tests.interop.kafka_tools import ACLS, CONFIGS, TOKENS, KafkaTools, Ran
from tests.process.launch import barnabas
from tests.process.load import wait_until_whole

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.long, pytest.mark.timeout(240),
]  # fmt: skip
WAYS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "a delegation token")
PATIENCE_S = 60.0
PER_ROUND = 8
"""Commands of a round, roughly: as many run while a node is dead."""
GONE_ALREADY = re.compile(
    r"Token is not found|Attempt to delete a user credential that does not exist"
)
"""What a tool says whose first request was carried out, and not answered before the death."""


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def cluster(provider: IdentityProvider) -> Iterator[Cluster]:
    settings = {
        **checking_tokens_of(provider),
        "super.users": f"User:admin;User:broker;User:{CLIENT}",
    }
    with Cluster(nodes=3, settings=settings, secure=True) as cluster:
        yield cluster


class Administrator:
    """Runs the tools in turn until it is closed. Each round adds an entry, a quota, a user and a token that
    bear one name; each second round takes those of the round before away again."""

    def __init__(self, tools: KafkaTools, name: str, user: str, *, asks_for_tokens: bool) -> None:
        self.user = user
        self.acls: set[str] = set()
        self.quotas: dict[str, float] = {}
        self.users: set[str] = set()
        self.tokens: dict[str, str] = {}
        """HMACs by id."""
        self.ran: list[tuple[str, Ran]] = []
        self.failures: list[Exception] = []
        self._tools = tools
        self._name = name
        self._asks_for_tokens = asks_for_tokens
        self._news = threading.Condition()
        self._begun = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._rounds, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_S)

    def wait_for_more(self, more: int) -> None:
        """Until `more` commands from now on have ended."""
        wanted = len(self.ran) + more
        self._wait(lambda: len(self.ran) >= wanted, f"{more} more commands")

    def wait_for_begin(self) -> None:
        """Until the next command begins."""
        begun = self._begun
        self._wait(lambda: self._begun > begun, "a command")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        with self._news:
            there = self._news.wait_for(lambda: condition() or bool(self.failures), PATIENCE_S)
        assert not self.failures, self.failures
        assert there, f"waited for {what}; the last were {self.ran[-3:]}"

    def _rounds(self) -> None:
        number = 0
        try:
            while not self._ended.is_set():
                self._add(f"{self._name}-{number}", 1000 + number)
                if number % 2:
                    self._remove(f"{self._name}-{number - 1}")
                number += 1
        except Exception as error:  # noqa: BLE001 - raised in the test's thread
            with self._news:
                self.failures.append(error)
                self._news.notify_all()

    def _add(self, name: str, rate: int) -> None:
        self._run(
            ACLS,
            "--add",
            "--allow-principal",
            f"User:{name}",
            "--operation",
            "Read",
            "--topic",
            name,
        )
        self.acls.add(name)
        user = ["--alter", "--entity-type", "users", "--entity-name", name, "--add-config"]
        self._run(CONFIGS, *user, f"producer_byte_rate={rate}")
        self.quotas[name] = rate
        self._run(CONFIGS, *user, f"SCRAM-SHA-256=[iterations=4096,password={name}-secret]")
        self.users.add(name)
        if self._asks_for_tokens:
            made = self._run(
                TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", f"User:{name}"
            )  # fmt: skip
            found = re.search(r"^(\S{22})\s+(\S{80,})\s", made.text, re.MULTILINE)
            assert found is not None, made
            self.tokens[found[1]] = found[2]
            self._run(TOKENS, "--renew", "--renew-time-period", "-1", "--hmac", found[2])

    def _remove(self, name: str) -> None:
        self._run(ACLS, "--remove", "--force", "--allow-principal", f"User:{name}",
                  "--operation", "Read", "--topic", name)  # fmt: skip
        self.acls.discard(name)
        user = ["--alter", "--entity-type", "users", "--entity-name", name, "--delete-config"]
        self._run(CONFIGS, *user, "producer_byte_rate")
        del self.quotas[name]
        self._run(CONFIGS, *user, "SCRAM-SHA-256")
        self.users.discard(name)
        if self.tokens:
            first = next(iter(self.tokens))
            self._run(
                TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", self.tokens[first]
            )
            del self.tokens[first]

    def _run(self, main: str, *words: str) -> Ran:
        with self._news:
            self._begun += 1
            self._news.notify_all()
        ran = self._tools.run(main, *words)
        what = f"{main.rpartition('.')[2]} {' '.join(words[:2])}"
        assert (ran.code == 0 and "Error while" not in ran.text) or GONE_ALREADY.search(ran.text), (
            f"{what}: {ran}"
        )
        with self._news:
            self.ran.append((what, ran))
            self._news.notify_all()
        return ran


def access_by(way: str, cluster: Cluster, provider: IdentityProvider) -> Access:
    if way == "OAUTHBEARER":
        return by_bearer_token(cluster, provider)
    if way == "a delegation token":
        return by_delegation_token(cluster)
    return as_user(cluster, way, "admin")


def topic_and_coordinator(cluster: Cluster, group: str) -> str:
    """A topic of three replicas, and a coordinator of `group`."""
    topic = fresh("administered")
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        client.create_topic(topic, PARTITIONS, 3)
        client.committed(group)
    wait_until_whole(cluster, topic)
    wait_until_whole(cluster, OFFSETS_TOPIC)
    return topic


@pytest.mark.parametrize("way", WAYS)
def test_kafkas_tools_administer_through_each_death(
    cluster: Cluster, provider: IdentityProvider, way: str, tmp_path: Path
) -> None:
    group, name = fresh("group"), fresh("admin")
    topic = topic_and_coordinator(cluster, group)
    asking = Access(cluster.bootstrap, properties=cluster.client_properties)
    tools = KafkaTools(access_by(way, cluster, provider), tmp_path, "tools")
    asks_for_tokens = way != "a delegation token"
    user = CLIENT if way == "OAUTHBEARER" else "admin"
    try:
        with Administrator(tools, name, user, asks_for_tokens=asks_for_tokens) as administrator:
            administrator.wait_for_more(PER_ROUND)
            for kind in KINDS:
                victim = dies_as(asking, kind, topic, group)
                administrator.wait_for_begin()
                before = len(administrator.ran)
                cluster.kill(victim)
                administrator.wait_for_more(PER_ROUND)
                cluster.restart(victim)
                wait_until_whole(cluster, topic)
                wait_until_whole(cluster, OFFSETS_TOPIC)
                administrator.wait_for_more(2)
                what, slowest = max(administrator.ran[before:], key=lambda each: each[1].seconds)
                print(
                    f"\n{way}, {kind} dies: the slowest is {what}, {slowest.seconds:.2f} s", end=""
                )
        assert not administrator.failures, administrator.failures
        print(f"\n{way}: {len(administrator.ran)} commands")
        check_by_tools(tools, administrator, name)
        check_by_our_commands(cluster, administrator, name)
    finally:
        tools.close()


def check_by_tools(tools: KafkaTools, wanted: Administrator, name: str) -> None:
    """Another run of each tool tells what was acknowledged, and nothing else of `name`."""
    acls = tools.run(ACLS, "--list").text
    assert set(re.findall(rf"name=({name}-\d+),", acls)) == wanted.acls
    users = tools.run(CONFIGS, "--describe", "--entity-type", "users").text
    rates = re.findall(rf"user-principal '({name}-\d+)' are producer_byte_rate=([\d.]+)", users)
    assert {user: float(rate) for user, rate in rates} == wanted.quotas, users
    scram = re.findall(rf"user-principal '({name}-\d+)' are SCRAM-SHA-256=iterations=4096", users)
    assert set(scram) == wanted.users, users
    if wanted.tokens:
        told = tools.run(TOKENS, "--describe", "--owner-principal", f"User:{wanted.user}").text
        found = dict(re.findall(r"^(\S{22})\s+(\S{80,})\s", told, re.MULTILINE))
        assert wanted.tokens.items() <= found.items()


def check_by_our_commands(cluster: Cluster, wanted: Administrator, name: str) -> None:
    def told(*words: str) -> Any:
        done = barnabas(*words, "--json", "--data", str(cluster.directory / "cluster"))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    acls = told("acls", "list")
    assert {row["name"] for row in acls if row["name"].startswith(name)} == wanted.acls
    quotas = {row["entity"].get("user") or "": row["limit"] for row in told("quotas", "describe")}
    assert {user: rate for user, rate in quotas.items() if user.startswith(name)} == wanted.quotas
    users = {row["name"] for row in told("users", "list")}
    assert {user for user in users if user.startswith(name)} == wanted.users
    assert set(wanted.tokens) <= {row["token_id"] for row in told("tokens", "list")}
