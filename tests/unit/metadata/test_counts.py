"""Numbers of partitions by state."""

from __future__ import annotations

from barnabas.metadata.counts import Counts, count
from barnabas.metadata.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import Uuid

TOPIC = Uuid(bytes(15) + b"\x07")


def test_partitions_are_counted_by_state() -> None:
    image = MetadataImage()
    image.replay(TopicRecord(name="t", topic_id=TOPIC))
    for index, (replicas, isr, leader, adding) in enumerate(
        [
            ([1, 2, 3], [1, 2, 3], 1, ()),
            ([1, 2, 3], [2], 2, ()),
            ([1, 2, 3], [], -1, ()),
            ([1, 2, 3, 4], [1, 2, 3], 1, (4,)),
        ]
    ):
        image.replay(
            PartitionRecord(
                partition_id=index, topic_id=TOPIC, replicas=replicas, isr=isr, leader=leader,
                adding_replicas=adding, leader_recovery_state=int(index == 1),
            )
        )  # fmt: skip
    image.replay(PartitionRecord(partition_id=5, topic_id=TOPIC, replicas=[1], isr=[1], leader=1))
    assert count(image.topics_by_id.values(), lambda topic: 2) == Counts(
        topics=1, partitions=5, offline=1, under_replicated=3, under_min_isr=2, not_preferred=2,
        reassigning=1, recovering=1,
    )  # fmt: skip
