"""What a reader sees that has nothing to do with the writer: librdkafka, which reads what is committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
PATIENCE_S = 60.0


class Read(NamedTuple):
    """One committed record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes


def read_committed(
    bootstrap: str,
    topic: str,
    count: int,
    problem: Callable[[], str | None] = lambda: None,
    timeout_s: float = PATIENCE_S,
) -> list[Read]:
    """All committed records up to the last stable offset of each partition; waits for `count` of them.

    `problem` may end the wait by a sentence.
    """
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads what is committed",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=timeout_s).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
        return _read(consumer, len(partitions), count, problem, time.monotonic() + timeout_s)
    finally:
        consumer.close()


def _read(
    consumer: Any,
    partitions: int,
    count: int,
    problem: Callable[[], str | None],
    deadline: float,
) -> list[Read]:
    found, at_end = list[Read](), set[int]()
    while len(found) < count or len(at_end) < partitions:
        said = problem()
        assert said is None, f"{said}; {len(found)} of {count} records are committed"
        assert time.monotonic() < deadline, f"{len(found)} of {count} records are committed"
        for message in consumer.consume(1_000, timeout=0.5):
            if message.error() is None:
                at_end.discard(message.partition())
                found.append(
                    Read(message.partition(), message.offset(), message.key(), message.value())
                )
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
            else:
                raise AssertionError(str(message.error()))
    return sorted(found)
