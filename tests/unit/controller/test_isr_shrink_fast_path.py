"""The quick way of a plain shrink decides as the general way does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.controller.partitions.leader_and_isr import isr_updates
from barnabas.controller.partitions.partition_change import PartitionChangeBuilder
from barnabas.metadata.image.codec import decode_record, encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from tests.effort import examples
from tests.unit.controller.harness import World, uuid
from tests.unit.metadata.strategies import holds

BROKERS = (1, 2, 3, 4, 5)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionRecord:
    replicas = draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True))
    isr = draw(st.lists(st.sampled_from(replicas), unique=True))
    odd = draw(st.integers(0, 9)) == 0
    return PartitionRecord(
        topic_id=uuid(1),
        replicas=replicas,
        isr=isr,
        leader=draw(st.sampled_from(isr)) if isr else -1,
        leader_epoch=3,
        partition_epoch=7,
        adding_replicas=replicas[:1] if odd else (),
        directories=[
            draw(st.sampled_from([uuid(2000 + b)] * 5 + [uuid(9), uuid(0)])) for b in replicas
        ],
    )


@pytest.mark.slow
@settings(max_examples=examples(250))
@given(
    st.lists(partitions(), min_size=1, max_size=12),
    st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True),
    st.integers(1, 3),
)
def test_the_quick_way_decides_as_the_general_way(
    records: list[PartitionRecord], leaving: list[int], min_isr: int
) -> None:
    image, cluster = WORLD.image, WORLD.controller.cluster
    nothing = holds(image)
    before = place(image, records, min_isr)
    topic = image.topics_by_name["t"]
    keys = [topic.slot << 32 | index for index in range(len(topic))]
    with cluster.leaving(leaving, "gone"):
        quick = list(isr_updates(cluster, keys, "gone"))
        general = [
            record
            for index in range(len(topic))
            if any(broker in leaving for broker in topic.isr[index])
            and (
                record := PartitionChangeBuilder(cluster, topic, index, "gone")
                .without(leaving)
                .build()
            )
        ]
    cluster.to_recover.clear()
    values = encode_records(quick, image.metadata_version)
    assert [decode_record(value) for value in values] == general
    image.apply_uncommitted(general, image.offset + 1, 1)
    after = holds(image)
    image.undo_uncommitted()
    assert place(image, records, min_isr) == before
    image.apply_uncommitted(quick, image.offset + 1, 1)
    assert holds(image) == after
    image.undo_uncommitted()
    assert holds(image) == nothing


def place(image: MetadataImage, records: list[PartitionRecord], min_isr: int) -> dict[str, Any]:
    """What the image holds then."""
    image.apply_uncommitted(
        [
            TopicRecord(name="t", topic_id=uuid(1)),
            ConfigRecord(
                resource_type=2, resource_name="t", name="min.insync.replicas", value=str(min_isr)
            ),
        ],
        image.offset + 2,
        1,
    )
    for index, record in enumerate(records):
        record.partition_id = index
    image.apply_uncommitted(records, image.offset + len(records), 1)
    return holds(image)


WORLD = World()
WORLD.join(*BROKERS)
