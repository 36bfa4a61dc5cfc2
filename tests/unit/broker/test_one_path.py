"""A request of few partitions and one of many go the same way: their answers agree to the byte."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.limits import NodeBounds
from barnabas.record.builder import build_batch
from barnabas.types import Uuid
from barnabas.wire.codec import encode_bytes
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.schema import Message
from tests.unit.broker.world import Cluster

pytestmark = pytest.mark.slow

USUAL = NodeBounds()
SMALL = replace(
    USUAL,
    fetch=replace(USUAL.fetch, inline_max=0, followed_per_slice=1, read_per_slice=1),
    handlers=replace(
        USUAL.handlers,
        appended_inline_max=0,
        appended_per_slice=1,
        described_inline_max=0,
        described_per_slice=1,
    ),
    decisions=replace(USUAL.decisions, inline_max=0, slice_max=1),
    loader=replace(USUAL.loader, applied_inline_max=0, slice_max=1),
)
"""Bounds by which a request of one partition is one of many."""
PARTITIONS = 5
BATCH = build_batch([(b"k", b"v")], timestamp_ms=1_750_000_000_000)


def produce(topics: list[tuple[Uuid, list[int]]], acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[
            TopicProduceData(
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=n, records=BATCH) for n in indexes],
            )
            for topic_id, indexes in topics
        ],
    )


def fetch(
    topics: list[tuple[Uuid, list[int]]], session: tuple[int, int], wait_ms: int = 0
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic_id=topic_id,
                partitions=[
                    FetchPartition(partition=n, fetch_offset=1, partition_max_bytes=1 << 20)
                    for n in indexes
                ],
            )
            for topic_id, indexes in topics
        ],
    )


def answers(bounds: NodeBounds) -> list[bytes]:
    """The answers of one broker with `bounds` to the same requests."""
    cluster = Cluster(1, bounds=bounds)
    first, second = (cluster.create_topic(name, PARTITIONS) for name in ("a", "b"))
    cluster.until(lambda: not len(cluster.broker().replicas.apply_queue))
    every = list(range(PARTITIONS))
    names = [MetadataRequestTopic(name=name) for name in ("b", "unknown", "a")]
    opened = fetch([(first, every), (second, [*every, 17])], (0, 0))
    found: list[bytes] = []

    def ask(request: Message) -> Message:
        answer: Message = cluster.ask(request)
        found.append(encode_bytes(answer, type(answer).VALID[1]))
        broker = cluster.broker()
        broker.fetches.validate()
        return answer

    ask(produce([(first, every), (second, [0, 17]), (first, [2]), (Uuid(bytes(15) + b"x"), [0])]))
    ask(produce([(second, every)], acks=1))
    session = ask(opened)
    ask(fetch([(first, [1, 1]), (second, [0])], (session.session_id, 1)))  # type: ignore[attr-defined]
    ask(fetch([], (session.session_id, 2), wait_ms=50))  # type: ignore[attr-defined]
    ask(fetch([(first, every)], (0, -1), wait_ms=50))
    ask(MetadataRequest(topics=None))
    ask(MetadataRequest(topics=names, allow_auto_topic_creation=False))
    return found


def test_many_partitions_are_answered_as_few_are() -> None:
    for few, many in zip(answers(USUAL), answers(SMALL), strict=True):
        assert few == many
