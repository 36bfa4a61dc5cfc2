"""A cluster begins with more records than a batch holds."""

from __future__ import annotations

import pytest

from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.storage_format import format_node
from barnabas.sim.cluster import CLUSTER_ID, SimCluster, Topology
from barnabas.sim.world.world import START_WALL_MS, World
from barnabas.types import Uuid
from barnabas.wire.schema import Message

TOPIC, PARTITIONS = Uuid(b"many partitions."), 300


def records() -> list[Message]:
    return [
        TopicRecord(name="many", topic_id=TOPIC),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=TOPIC,
                replicas=[1],
                isr=[1],
                leader=-1,
                leader_epoch=7,
            )
            for number in range(PARTITIONS)
        ),
    ]


@pytest.mark.slow
def test_first_records_beyond_a_batch_are_one_transaction() -> None:
    settings = {"internal.metadata.max.batch.size.in.bytes": "12000"}
    cluster = SimCluster(World(1), Topology(1, settings=settings))
    node = cluster.nodes[1]
    process = node.machine.start_process()
    rng = process.rng("format").randbytes
    format_node(process.disk, node.config(), CLUSTER_ID, rng, START_WALL_MS, records=records())
    process.kill()
    node.needs_format = False
    node.start()

    def led() -> bool:
        if node.node is None or node.node.broker is None:
            return False
        topic = node.node.broker.image.topics_by_name.get("many")
        return topic is not None and set(topic.leader) == {1} and len(topic) == PARTITIONS

    assert cluster.world.run(60_000.0, led)
    assert node.node is not None and node.node.broker is not None
    topic = node.node.broker.image.topics_by_name["many"]
    assert set(topic.leader_epoch) == {8}
