"""confluent-kafka in both group protocols against a cluster of processes (KIP-848)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.checks import fresh, number, payload, wait_for, wait_until_known

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
admin_module = pytest.importorskip("confluent_kafka.admin")
pytestmark = pytest.mark.process
PARTITIONS = 6


class Group:
    """Consumers of one group that are polled together, and what they read."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.name = fresh("g")
        self.members: list[Any] = []
        self.read: Counter[int] = Counter()
        self.admin = admin_module.AdminClient({"bootstrap.servers": cluster.bootstrap})

    def join(self, protocol: str, **extra: Any) -> Any:
        given = {"group.protocol": protocol, "enable.auto.commit": False, **extra}
        if protocol == "classic":
            given["session.timeout.ms"] = 6000
        client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                **given,
            }
        )
        client.subscribe([self.topic])
        self.members.append(client)
        return client

    def leave(self, client: Any) -> None:
        self.members.remove(client)
        client.close()

    def poll(self) -> None:
        for client in self.members:
            for message in client.consume(100, timeout=0.02):
                if message.error() is None:
                    self.read[number(message.value())] += 1

    def is_shared(self) -> bool:
        """Every partition has one owner, and no member more than its share."""
        self.poll()
        owned = [[p.partition for p in client.assignment()] for client in self.members]
        most = -(-PARTITIONS // len(self.members))
        everything = sorted(p for parts in owned for p in parts)
        return everything == list(range(PARTITIONS)) and max(map(len, owned)) <= most

    def has_read(self, count: int, first: int = 0) -> bool:
        self.poll()
        return all(self.read[index] for index in range(first, count))

    def commit(self) -> None:
        for client in self.members:
            if client.assignment():
                try:
                    client.commit(asynchronous=False)
                except confluent_kafka.KafkaException as error:
                    assert error.args[0].name() == "_NO_OFFSET", error

    def described(self) -> Any:
        """This library's administrators continue asking a coordinator that moved, so each asks once."""
        found: list[Any] = []
        servers = {"bootstrap.servers": self.cluster.bootstrap}

        def told() -> bool:
            self.poll()
            try:
                admin = admin_module.AdminClient(servers)
                found.append(admin.describe_consumer_groups([self.name])[self.name].result(20))
            except confluent_kafka.KafkaException as error:
                assert error.args[0].name() == "NOT_COORDINATOR", error
            return bool(found)

        wait_for(told, "the group's coordinator")
        return found[0]

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.members:
            client.close()


def filled(cluster: Cluster, count: int) -> str:
    topic = fresh("groups")
    client = admin_module.AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = admin_module.NewTopic(topic, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    client.create_topics([new])[topic].result(30)
    wait_until_known(cluster, topic)
    produce(cluster, topic, range(count))
    return topic


def produce(cluster: Cluster, topic: str, indexes: range) -> None:
    client = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for index in indexes:
        client.produce(topic, payload(index), partition=index % PARTITIONS)
    assert client.flush(60) == 0


def test_consumers_of_the_new_protocol_share_commit_and_resume(cluster: Cluster) -> None:
    topic = filled(cluster, 120)
    with Group(cluster, topic) as group:
        share_commit_and_resume(cluster, group)


def share_commit_and_resume(cluster: Cluster, group: Group) -> None:
    first = group.join("consumer")
    wait_for(lambda: group.has_read(120), "all records")
    group.commit()
    second = group.join("consumer", **{"group.remote.assignor": "range"})
    wait_for(group.is_shared, "equal shares")
    told = group.described()
    assert (told.type.name, told.state.name, len(told.members)) == ("CONSUMER", "STABLE", 2)
    [listed] = [
        g for g in group.admin.list_consumer_groups().result(20).valid if g.group_id == group.name
    ]
    assert (listed.type.name, listed.state.name) == ("CONSUMER", "STABLE")
    group.leave(first)
    group.leave(second)
    produce(cluster, group.topic, range(120, 180))
    group.read.clear()
    group.join("consumer")
    wait_for(lambda: group.has_read(180, 120), "the new records")
    assert sorted(group.read) == list(range(120, 180))
    group.leave(group.members[0])
    group.admin.delete_consumer_groups([group.name])[group.name].result(20)


def test_a_static_member_returns_to_its_partitions(cluster: Cluster) -> None:
    with Group(cluster, filled(cluster, 12)) as group:
        leave_and_return(group)


def leave_and_return(group: Group) -> None:
    static = group.join("consumer", **{"group.instance.id": "one"})
    group.join("consumer")
    wait_for(group.is_shared, "equal shares")
    had = sorted(p.partition for p in static.assignment())
    group.members.remove(static)
    static.close()
    again = group.join("consumer", **{"group.instance.id": "one"})
    wait_for(group.is_shared, "the static member's return")
    assert sorted(p.partition for p in again.assignment()) == had


def test_both_protocols_share_one_group_through_deaths_of_nodes(cluster: Cluster) -> None:
    with Group(cluster, filled(cluster, 300)) as group:
        live_through_deaths(cluster, group)


def live_through_deaths(cluster: Cluster, group: Group) -> None:
    topic = group.topic
    old = group.join("classic")
    wait_for(lambda: group.has_read(300), "all records")
    group.commit()
    new = group.join("consumer")
    wait_for(group.is_shared, "both protocols in one group")
    told = group.described()
    assert told.type.name == "CONSUMER"
    coordinator = told.coordinator.id
    cluster.kill(coordinator)
    produce(cluster, topic, range(300, 600))
    wait_for(lambda: group.has_read(600), "all records after the coordinator's death", 60)
    wait_for(group.is_shared, "shares after the coordinator's death", 60)
    group.commit()
    cluster.restart(coordinator)
    leader = group.admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    cluster.kill(leader)
    produce(cluster, topic, range(600, 900))
    wait_for(lambda: group.has_read(900), "all records after a leader's death", 60)
    cluster.restart(leader)
    wait_for(group.is_shared, "shares after a leader's death", 60)
    # The last one of the consumer protocol leaves: the group is a classic one again.
    group.leave(new)
    wait_for(group.is_shared, "the classic member has everything", 60)
    assert group.described().type.name == "CLASSIC"
    assert group.members == [old]
