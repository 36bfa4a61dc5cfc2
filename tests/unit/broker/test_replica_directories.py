"""Which replicas of a broker in ZooKeeper mode may get an empty log while a log directory is offline."""

from __future__ import annotations

import pytest

from barnabas.broker.replicas.replica_directories import ReplicaDirectories
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.unit.log.directories_world import DirectoriesWorld

NAME, TOPIC_ID = TopicPartition("t", 0), Uuid(bytes(15) + b"\x05")


def test_an_order_that_calls_a_replica_new_counts_for_one_opening() -> None:
    """Also where its log was there: a later opening makes no empty log beside an offline directory."""
    world, image = DirectoriesWorld(), MetadataImage()
    image.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    image.replay(
        PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1)
    )
    state = image.topics_by_id[TOPIC_ID].partition(0)
    directories = ReplicaDirectories(1, image, world.logs, lambda *_: None, names_new_replicas=True)
    log = directories.open_log(NAME, TOPIC_ID, state)
    directories.first_assigned[TOPIC_ID, 0] = None
    assert directories.open_log(NAME, TOPIC_ID, state) is log
    offline = world.logs.directory_of(NAME)
    assert offline is not None
    world.logs.fail(offline, "its disk broke")
    with pytest.raises(KafkaError) as refused:
        directories.open_log(NAME, TOPIC_ID, state)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
