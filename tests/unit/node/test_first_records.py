"""A cluster begins with more records than a batch holds, and with those in its first snapshot."""

from __future__ import annotations

import pytest

from barnabas.config.meta_properties import BOOTSTRAP_CHECKPOINT
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.storage_format import format_node
from barnabas.raft.bootstrap_snapshot import first_snapshot_path
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


@pytest.mark.slow
def test_records_in_the_first_snapshot_are_written_by_the_first_leader() -> None:
    """As Apache Kafka 4.4's tool leaves them (KIP-1170): no other node has that snapshot."""
    cluster = SimCluster(World(1), Topology(1))
    node = cluster.nodes[1]
    process = node.machine.start_process()
    rng = process.rng("format").randbytes
    levels = {METADATA_VERSION: 30}
    format_node(process.disk, node.config(), CLUSTER_ID, rng, START_WALL_MS, features=levels)
    home = node.config().metadata_log_dir
    left = process.disk.read_file(f"{home}/{BOOTSTRAP_CHECKPOINT}")
    process.disk.remove(f"{home}/{BOOTSTRAP_CHECKPOINT}")
    first = first_snapshot_path(home)
    process.disk.make_dirs(first.rpartition("/")[0])
    process.disk.write_atomic(first, left)
    process.kill()
    node.needs_format = False
    node.start()

    def led() -> bool:
        return node.node is not None and METADATA_VERSION in node.node.metadata.image.features

    assert cluster.world.run(60_000.0, led)
    assert node.node is not None
    assert node.node.metadata.image.features[METADATA_VERSION] == 30
    log = node.node.ports.disk.read_file(f"{home}/__cluster_metadata-0/{0:020}.log")
    assert METADATA_VERSION.encode() in bytes(log)
