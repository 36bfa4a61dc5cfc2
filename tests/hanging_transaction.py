"""A transaction that no coordinator knows of, as a batch that was late once left it (KIP-890)."""

from __future__ import annotations

import time

from barnabas.host.client import Connected
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

UNVERIFIED = "transaction.partition.verification.enable"
"""Brokers that verify transactions refuse the batch: set this to false."""


def leave_open(connected: Connected, partition: TopicPartition, producer_id: int) -> None:
    """Write one record of a transaction that will never end."""
    batch = build_batch(
        [(b"k", b"late")],
        timestamp_ms=time.time_ns() // 1_000_000,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=partition.partition, records=batch)
    topic = TopicProduceData(name=partition.topic, partition_data=[data])
    request = ProduceRequest(
        transactional_id="lost", acks=-1, timeout_ms=10_000, topic_data=[topic]
    )
    cluster = connected.client.cluster
    endpoint = cluster.brokers[cluster.leader(partition) or 0]
    answer = connected.call(connected.client.send(endpoint, request, version=11))
    assert answer.responses[0].partition_responses[0].error_code == 0
