"""Clients that stay connected: a group's members that start together, and clients whose nodes die one by one.

Producers, members and admin clients that were connected before a node died act again within 2 s of the death.
``BARNABAS_DEATHS=20`` plays twenty deaths of each kind and holds them to that; it prints the seconds.
One death of each kind, as every run plays it on a machine that does other things besides, is held to 5 s: a
client that is led to a dead node waits for 7 s and more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.clients.access import Access
from tests.clients.checks import fresh, wait_for
from tests.clients.connected import KINDS, PARTITIONS, Deaths, groups_of_one_coordinator
from tests.process.load import wait_until_whole

confluent_kafka = pytest.importorskip("confluent_kafka")
for library in ("kafka", "aiokafka"):
    pytest.importorskip(library)

from tests.clients.connected_python import Loop, all_clients  # noqa: E402

MANY = "BARNABAS_DEATHS" in os.environ
DEATHS = int(os.environ.get("BARNABAS_DEATHS", "1"))
"""Of each kind."""
WITHIN_S = 2.0 if MANY else 5.0
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(90 + 60 * DEATHS),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        yield cluster


def new_topic(cluster: Cluster) -> str:
    topic = fresh("stays")
    with connect(cluster.bootstrap) as client:
        client.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
    wait_until_whole(cluster, topic)
    return topic


class StaticMember:
    """A consumer that knows its coordinator; `assigned`: how many partitions came (negative: were taken)."""

    def __init__(self, cluster: Cluster, topic: str, group: str, instance: str) -> None:
        self.assigned: list[int] = []
        self.client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "group.instance.id": instance,
            }
        )
        self.client.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=30)

    def subscribe(self, topic: str) -> None:
        self.client.subscribe(
            [topic],
            on_assign=lambda _, partitions: self.assigned.append(len(partitions)),
            on_revoke=lambda _, partitions: self.assigned.append(-len(partitions)),
        )


def test_static_members_that_subscribe_back_to_back_share_the_first_generation(
    cluster: Cluster,
) -> None:
    """Without a delay of the first rebalance. The machine may hold up some of five pairs for longer than the
    10 ms that the group waits; that the group waits is held by tests/scripts/group."""
    topic, shared = new_topic(cluster), 0
    for _ in range(5):
        group = fresh("group")
        members = [StaticMember(cluster, topic, group, name) for name in ("one", "two")]
        for member in members:
            member.subscribe(topic)

        def all_assigned(members: list[StaticMember] = members) -> bool:
            for member in members:
                member.client.poll(0.01)
            return all(member.assigned for member in members)

        wait_for(all_assigned, "an assignment of each")
        shared += sorted(size for member in members for size in member.assigned) == [1, 2]
        for member in members:
            member.client.close()
    assert shared >= 2


def test_clients_connected_before_act_soon_after_a_death(cluster: Cluster) -> None:
    topic, groups, loop = new_topic(cluster), groups_of_one_coordinator(3), Loop()
    access = Access(cluster.bootstrap)
    clients = all_clients(loop, access, topic, groups)
    deaths = Deaths(cluster, access, topic, groups[0], clients)
    try:
        for _ in range(DEATHS):
            for kind in KINDS:
                deaths.play(kind)
        deaths.check_nothing_is_lost()
    finally:
        print(f"\n{deaths.table()}")
        deaths.close()
        loop.close()
    assert deaths.worst() < WITHIN_S, f"\n{deaths.table()}"
