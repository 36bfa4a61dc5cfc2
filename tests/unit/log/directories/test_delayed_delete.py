"""Files that are no longer needed are deleted, whatever became of others of them."""

from __future__ import annotations

import pytest

from barnabas.log.directories.log_directory import STRAY_SUFFIX, deleted_partition_of
from barnabas.types import TopicPartition
from tests.unit.log.directories.test_directories import T0, T1, TOPIC_ID, fill
from tests.unit.log.directories_world import PATHS, DirectoriesWorld


def test_files_of_a_deleted_log_keep_no_other_files() -> None:
    """Both lose segments to retention; then the one's directory gets another name."""
    world = DirectoriesWorld()
    first = world.logs.directories[0]
    for partition in (T0, T1):
        log = world.logs.create(partition, TOPIC_ID, first.directory_id)
        fill(log, 40)
        log.move_high_watermark(40)
        log.advance_log_start(30)
    world.logs.apply_retention()
    world.logs.delete(T0)
    world.run_ms(20_000)
    names = world.process.disk.list_dir(f"{PATHS[0]}/{T1}")
    assert [name for name in names if name.endswith(".deleted")] == []


@pytest.mark.parametrize("topic", ["t" * 249, "a-" + "t" * 247, "t" * 205])
def test_a_log_of_a_long_name_is_set_aside_under_one_that_kafka_reads(topic: str) -> None:
    """Its start ends at a directory whose name does not say a partition's number."""
    world, partition = DirectoriesWorld(), TopicPartition(topic, 12)
    first = world.logs.directories[0]
    log = world.logs.create(partition, TOPIC_ID, first.directory_id)
    fill(log, 1)
    world.logs.delete(partition)
    (name,) = [name for name in world.process.disk.list_dir(PATHS[0]) if "-12." in name]
    found = deleted_partition_of(name)
    assert found is not None and found.partition == 12 and topic.startswith(found.topic)
    log = world.logs.create(partition, TOPIC_ID, first.directory_id)
    world.logs.delete(partition, is_stray=True)
    names = world.process.disk.list_dir(PATHS[0])
    (name,) = [name for name in names if name.endswith(STRAY_SUFFIX)]
    assert len(name) <= 255 and "-12." in name
