"""Someone tries to grow the topics of coordinators while groups and transactional producers are at work."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.checks import fresh, number, payload, wait_for, wait_until_known

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
admin_module = pytest.importorskip("confluent_kafka.admin")
pytestmark = pytest.mark.process
GROUPS = 12
TOPICS = ("__consumer_offsets", "__transaction_state")
MANY = 200


@pytest.fixture
def base(cluster: Cluster) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap, "log_level": 0}


def consumer(base: dict[str, Any], group: str, **more: Any) -> Any:
    given = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return confluent_kafka.Consumer({**base, **given, **more})


def committed(base: dict[str, Any], topic: str, groups: list[str]) -> list[int]:
    found = []
    for group in groups:
        client = consumer(base, group)
        (place,) = client.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=30)
        found.append(place.offset)
        client.close()
    return found


def producer(base: dict[str, Any], name: str) -> Any:
    client = confluent_kafka.Producer({**base, "transactional.id": name})
    client.init_transactions(30)
    return client


def test_coordinators_topics_do_not_grow_and_clients_at_work_notice_nothing(
    cluster: Cluster, base: dict[str, Any]
) -> None:
    admin = admin_module.AdminClient(base)
    topic, groups = fresh("t"), [fresh("g") for _ in range(GROUPS)]
    admin.create_topics([admin_module.NewTopic(topic, 1, 3)])[topic].result(30)
    wait_until_known(cluster, topic)
    for group in groups:
        client = consumer(base, group)
        place = confluent_kafka.TopicPartition(topic, 0, 7)
        client.commit(offsets=[place], asynchronous=False)
        client.close()
    name, members = fresh("x"), []
    for protocol in ("classic", "consumer"):
        members.append(consumer(base, fresh("live"), **{"group.protocol": protocol}))
        members[-1].subscribe([topic])
    first = producer(base, name)
    first.begin_transaction()
    first.produce(topic, payload(0))
    first.flush(30)
    # -- someone tries
    for internal in TOPICS:
        with pytest.raises(confluent_kafka.KafkaException) as refusal:
            admin.create_partitions([admin_module.NewPartitions(internal, 64)])[internal].result(30)
        assert refusal.value.args[0].name() == "INVALID_PARTITIONS"
        assert "keeps its" in refusal.value.args[0].str()
        found = admin.list_topics(internal, timeout=30).topics[internal].partitions
        assert len(found) < 64
    # -- and all is as it was
    assert committed(base, topic, groups) == [7] * GROUPS
    second = producer(base, name)
    first.produce(topic, payload(1))
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        first.commit_transaction(30)
    assert fenced.value.args[0].fatal()
    second.begin_transaction()
    for value in range(2, MANY):
        second.produce(topic, payload(value))
    second.commit_transaction(30)
    for member in members:
        read: list[int] = []

        def all_are_read(member: Any = member, read: list[int] = read) -> bool:
            read += [number(m.value()) for m in member.consume(100, timeout=0.1) if not m.error()]
            return len(read) >= MANY - 2

        wait_for(all_are_read, "the records of the second producer")
        assert read == list(range(2, MANY))
        member.commit(asynchronous=False)
        member.close()
