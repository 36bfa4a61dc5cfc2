"""Numbers of partitions by state."""

from __future__ import annotations

import pytest

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.views import counts
from barnabas.metadata.views.counts import Counts, count, count_in_slices
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
            ([1], [], -1, ()),
        ]
    ):
        image.replay(
            PartitionRecord(
                partition_id=index, topic_id=TOPIC, replicas=replicas, isr=isr, leader=leader,
                adding_replicas=adding, leader_recovery_state=int(index == 1),
                leader_epoch=0 if index == 4 else 3,
            )
        )  # fmt: skip
    image.replay(PartitionRecord(partition_id=6, topic_id=TOPIC, replicas=[1], isr=[1], leader=1))
    counted = count(image.topics_by_id.values(), lambda topic: 2)
    assert counted == Counts(
        topics=1, partitions=6, offline=2, under_replicated=4, under_min_isr=3, not_preferred=3,
        reassigning=1, recovering=1, new=1,
    )  # fmt: skip
    assert counted.online == 4


def test_many_partitions_are_counted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "PARTITIONS_PER_SLICE", 10)
    image = MetadataImage()
    for number, size in enumerate((25, 3, 9)):
        topic = Uuid(bytes([number]) * 16)
        image.replay(TopicRecord(name=f"t{number}", topic_id=topic))
        for index in range(size):
            image.replay(
                PartitionRecord(
                    partition_id=index, topic_id=topic, replicas=[1], isr=[1],
                    leader=-1 if index % 2 else 1, leader_epoch=1,
                )
            )  # fmt: skip
    parts = list(count_in_slices(image.topics_by_id.values(), lambda topic: 1))
    assert [part.partitions for part in parts] == [10, 10, 17, 0]
    assert sum(part.topics for part in parts) == 3
    assert sum(part.offline for part in parts) == 12 + 1 + 4
