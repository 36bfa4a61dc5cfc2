"""Clients of a secure cluster through deaths: each library by each mechanism, over SASL_SSL.

A leader, a coordinator and the active controller die by kill -9, one at a time. Clients that were connected
before act at that moment, and new ones connect while the node is dead. Groups continue, and nothing that was
acknowledged is lost. Sessions end after `SESSION_MS`: clients authenticate again on the way.

What a library cannot say is not here: kcat has no tokens of OAUTHBEARER, and only Java's clients and ours
know the ``tokenauth`` of a delegation token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.clients.access import (
    Access,
    as_user,
    by_bearer_token,
    by_delegation_token,
    checking_tokens_of,
)
from tests.clients.checks import fresh
from tests.clients.connected import KINDS, PARTITIONS, Client, Deaths, groups_of_one_coordinator
from tests.clients.connected_java import JavaClients
from tests.clients.connected_ours import our_clients
from tests.identity_provider import CLIENT, IdentityProvider
from tests.process.load import wait_until_whole

confluent_kafka = pytest.importorskip("confluent_kafka")
for library in ("kafka", "aiokafka"):
    pytest.importorskip(library)

from tests.clients.connected_kcat import kcat_clients  # noqa: E402
from tests.clients.connected_python import Loop, all_clients  # noqa: E402

SESSION_MS = 10_000
pytestmark = [
    pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.java,
    pytest.mark.peers("kafka", "kcat"), pytest.mark.timeout(360),
]  # fmt: skip
Make = Callable[[Access, str, list[str], Path], list[Client]]


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(lasts_s=60) as provider:
        yield provider


@pytest.fixture(scope="module")
def cluster(provider: IdentityProvider) -> Iterator[Cluster]:
    settings = {
        **checking_tokens_of(provider),
        "group.initial.rebalance.delay.ms": "0",
        "connections.max.reauth.ms": str(SESSION_MS),
        "super.users": f"User:admin;User:broker;User:{CLIENT}",
    }
    with Cluster(nodes=3, settings=settings, secure=True) as cluster:
        yield cluster


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def play(cluster: Cluster, access: Access, make: Make, folder: Path) -> None:
    """A death of each kind, with clients of `make` that stay and clients of `make` that come."""
    topic, groups = fresh("secured"), groups_of_one_coordinator(5)
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        client.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
    wait_until_whole(cluster, topic)
    clients = make(access, topic, groups, folder)

    def newcomers() -> list[Client]:
        return make(access, topic, [fresh("new") for _ in range(5)], folder)

    asking = Access(cluster.bootstrap, properties=cluster.client_properties)
    deaths = Deaths(cluster, asking, topic, groups[0], clients, newcomers)
    try:
        for kind in KINDS:
            deaths.play(kind)
        deaths.all_act()
        deaths.check_nothing_is_lost()
    finally:
        print(f"\n{deaths.table()}")
        deaths.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_clients_with_passwords_outlive_each_death(
    cluster: Cluster, loop: Loop, mechanism: str, tmp_path: Path
) -> None:
    def make(access: Access, topic: str, groups: list[str], folder: Path) -> list[Client]:
        return [
            *all_clients(loop, access, topic, groups[:3]),
            *our_clients(access, topic, groups[3]),
            *kcat_clients(access, topic, groups[4]),
            JavaClients(access, topic, fresh("java"), folder),
        ]

    play(cluster, as_user(cluster, mechanism, "admin"), make, tmp_path)


def test_clients_with_bearer_tokens_outlive_each_death(
    cluster: Cluster, provider: IdentityProvider, loop: Loop, tmp_path: Path
) -> None:
    def make(access: Access, topic: str, groups: list[str], folder: Path) -> list[Client]:
        return [
            *all_clients(loop, access, topic, groups[:3]),
            *our_clients(access, topic, groups[3]),
            JavaClients(access, topic, fresh("java"), folder),
        ]

    play(cluster, by_bearer_token(cluster, provider), make, tmp_path)


def test_clients_with_delegation_tokens_outlive_each_death(
    cluster: Cluster, tmp_path: Path
) -> None:
    def make(access: Access, topic: str, groups: list[str], folder: Path) -> list[Client]:
        return [
            *our_clients(access, topic, groups[0]),
            JavaClients(access, topic, fresh("java"), folder),
        ]

    play(cluster, by_delegation_token(cluster), make, tmp_path)
