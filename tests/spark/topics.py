"""Topics written and read by confluent-kafka: the other side of what Spark reads and writes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.options import endpoints
from barnabas.types import ZERO_UUID
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.metadata_response import MetadataResponse

READ_S = 30.0


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def write(
    bootstrap: str, topic: str, values: Iterable[bytes], *, partition: int = -1, **settings: Any
) -> None:
    """One record per value with the value as key, acknowledged by all."""
    failures: list[str] = []

    def on_delivery(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    where = {} if partition < 0 else {"partition": partition}
    for value in values:
        producer.produce(topic, value=value, key=value, on_delivery=on_delivery, **where)
        producer.poll(0)
    assert producer.flush(READ_S) == 0
    assert not failures, failures[0]


def made_again(admin: AdminClient, topic: str) -> None:
    """Delete the topic and create it with one partition."""
    admin.delete_topics([topic])[topic].result(READ_S)
    while topic in admin.list_topics(timeout=READ_S).topics:
        time.sleep(0.05)
    admin.create_topics([NewTopic(topic, 1, -1)])[topic].result(READ_S)


def known_everywhere(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until every broker knows the topic, of the same id, with so many partitions. What a broker learns
    last, a reader that asks it learns last too."""
    cluster = ClusterClient(endpoints(bootstrap))
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=ZERO_UUID, name=topic)])
    deadline_s = time.monotonic() + READ_S
    try:
        cluster.topics([topic])
        while True:
            answers = [cluster.call(at, request, MetadataResponse) for at in cluster.brokers()]
            found = {(each.topics[0].topic_id, len(each.topics[0].partitions)) for each in answers}
            if len(found) == 1 and found.pop()[1] == partitions:
                return
            assert time.monotonic() < deadline_s, f"{topic} is not known everywhere"
            time.sleep(0.05)
    finally:
        cluster.close()


def read(bootstrap: str, topic: str) -> list[Record]:
    """Everything that counts up to the present end, by partition and offset: no control records, and
    nothing of aborted transactions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[Record] = []
    try:
        left = set(consumer.list_topics(topic, READ_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in sorted(left)])
        tries = 60
        while left and tries:
            messages = consumer.consume(10_000, 0.5)
            tries -= not messages
            for message in messages:
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(message.partition())
                    continue
                found.append(
                    Record(
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                        message.timestamp()[1],
                    )
                )
    finally:
        consumer.close()
    assert not left, f"the ends of partitions {sorted(left)} of {topic} do not come"
    return sorted(found)
