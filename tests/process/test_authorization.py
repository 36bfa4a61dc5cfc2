"""ACLs on a cluster of processes, made by confluent-kafka and the command line, act on open connections."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from barnabas.config.coordination import STANDARD_AUTHORIZER
from barnabas.testing.cluster import Cluster
from tests.process.launch import barnabas, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]
EVERYBODY = "User:ANONYMOUS"
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
    "allow.everyone.if.no.acl.found": "true",
}
"""Without authentication all are one principal, the node too: only what is named by an entry is closed."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, settings=SETTINGS) as cluster:
        yield cluster


def binding(name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, EVERYBODY, "*", operation, permission
    )


def outcome(producer: Producer, topic: str) -> str:
    """The name of what a producer is answered; empty where it may."""
    told: list[str] = []
    try:
        producer.produce(
            topic, b"v", on_delivery=lambda e, m: told.append("" if e is None else e.name())
        )
    except KafkaException as refused:
        return str(refused.args[0].name())
    producer.flush(10)
    return told[0]


def test_a_denial_acts_on_open_connections_and_ends_with_its_entry(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("closed", 1), NewTopic("open", 1)])["closed"].result(10)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "topic.metadata.refresh.interval.ms": 500}
    )
    assert outcome(producer, "closed") == ""
    deny = binding("closed", AclOperation.WRITE, AclPermissionType.DENY)
    admin.create_acls([deny])[deny].result(10)
    wait_until(
        lambda: outcome(producer, "closed") == "TOPIC_AUTHORIZATION_FAILED", "the denial acts"
    )
    assert outcome(producer, "open") == ""
    every = AclBindingFilter(
        ResourceType.TOPIC, "closed", ResourcePatternType.LITERAL, None, None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    assert admin.describe_acls(every).result(10) == [deny]
    assert admin.delete_acls([every])[every].result(10) == [deny]
    wait_until(lambda: outcome(producer, "closed") == "", "the producer may write again")


def test_a_consumer_is_refused_what_it_may_not_read(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("secret", 1)])["secret"].result(10)
    assert outcome(Producer({"bootstrap.servers": cluster.bootstrap}), "secret") == ""
    added = barnabas(
        "acls", "add", "--deny-principal", EVERYBODY, "--operation", "read", "--topic", "sec",
        "--resource-pattern-type", "prefixed", "--bootstrap", cluster.bootstrap, "--json",
    )  # fmt: skip
    assert json.loads(added.stdout)[0]["pattern"] == "prefixed", added.stderr
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["secret"])
    told: list[str] = []

    def refused() -> bool:
        message = consumer.poll(1)
        if message is not None:
            error = message.error()
            told.append("a record" if error is None else error.name())
        return bool(told)

    wait_until(refused, "the consumer is answered")
    consumer.close()
    assert told == ["TOPIC_AUTHORIZATION_FAILED"]
    asked = barnabas("acls", "remove", "--topic", "sec", "--resource-pattern-type", "prefixed",
                     "--bootstrap", cluster.bootstrap)  # fmt: skip
    assert asked.returncode != 0
    assert "--yes" in asked.stderr
    removed = barnabas("acls", "remove", "--topic", "sec", "--resource-pattern-type", "prefixed",
                       "--yes", "--json", "--bootstrap", cluster.bootstrap)  # fmt: skip
    assert [row["name"] for row in json.loads(removed.stdout)] == ["sec"], removed.stderr
    assert "authorization.denied" in cluster.log_text(1)
    assert "acl.created" in cluster.log_text(1)


def test_another_authorizer_ends_the_start_with_a_sentence(cluster: Cluster) -> None:
    up = barnabas("up", "--data", str(cluster.directory / "other"), "--nodes", "1", "--set",
                  "authorizer.class.name=kafka.security.authorizer.AclAuthorizer")  # fmt: skip
    assert up.returncode != 0
    assert f"the only authorizer here is {STANDARD_AUTHORIZER}" in up.stdout + up.stderr
