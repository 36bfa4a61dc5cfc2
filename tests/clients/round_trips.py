"""Records that a library writes and reads again: the least that has to work for each way into a cluster."""

from __future__ import annotations

import asyncio
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.clients.access import Access

WAIT_S = 30.0


def new_topic(cluster: Cluster, partitions: int, replicas: int) -> str:
    """Made by the administrator; its name."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        client.create_topic(name, partitions, replicas)
    return name


def by_confluent_kafka(access: Access, topic: str, count: int) -> int:
    """How many of `count` records came back; a group that has the topic's name reads them."""
    producer = Producer(access.librdkafka())
    for index in range(count):
        producer.produce(topic, b"x" * 2000, key=str(index))
    assert producer.flush(WAIT_S) == 0
    group = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(access.librdkafka() | group)
    consumer.subscribe([topic])
    keys = set()
    for message in consumer.consume(count, WAIT_S):
        assert message.error() is None
        keys.add(message.key())
    consumer.close()
    return len(keys)


def by_kafka_python(access: Access, topic: str, count: int) -> int:
    """How many of `count` records came back."""
    settings = access.kafka_python()
    producer = KafkaProducer(**settings)
    for index in range(count):
        producer.send(topic, str(index).encode())
    producer.flush(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    values = set()
    for record in consumer:
        values.add(record.value)
        if len(values) == count:
            break
    consumer.close()
    return len(values)


def by_aiokafka(access: Access, topic: str, count: int) -> int:
    """How many of `count` records came back."""

    async def run() -> int:
        settings = access.aiokafka()
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        for index in range(count):
            await producer.send_and_wait(topic, str(index).encode())
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings)
        await consumer.start()
        values: set[bytes] = set()
        while len(values) < count:
            values.add((await asyncio.wait_for(consumer.getone(), WAIT_S)).value)
        await consumer.stop()
        return len(values)

    return asyncio.run(run())


def errors_of_librdkafka(settings: dict[str, object]) -> list[int]:
    """The codes that a client reports which is not let in."""
    errors: list[KafkaError] = []
    client = AdminClient(settings | {"error_cb": errors.append})
    try:
        client.list_topics(timeout=2)
    except Exception as error:  # noqa: BLE001 - looked at below
        assert any(
            word in str(error) for word in ("_TRANSPORT", "_AUTHENTICATION", "timed out", "Failed")
        )
    else:
        raise AssertionError("the client was let in")
    for _ in range(20):
        client.poll(0.1)
    return [error.code() for error in errors]
