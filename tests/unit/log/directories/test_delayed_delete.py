"""Files that are no longer needed are deleted, whatever became of others of them."""

from __future__ import annotations

import pytest

from barnabas.log.directories.entry_names import STRAY_SUFFIX, deleted_partition_of
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


def told(world: DirectoriesWorld) -> list[str]:
    lines = [line for line in world.process.log_lines if "warning log.not_removed" in line]
    return [line.split("path=")[1].split()[0] for line in lines]


def test_a_log_that_cannot_be_removed_is_tried_again_less_and_less_often() -> None:
    """It took its directory offline, and with the only directory the node ended."""
    world = DirectoriesWorld()
    disk = world.refuse_removal()
    for partition in (T0, T1):
        fill(world.logs.create(partition, TOPIC_ID, world.logs.directories[0].directory_id), 3)
    world.logs.delete(T0)
    (name,) = (name for name in disk.list_dir(PATHS[0]) if name.endswith("-delete"))
    disk.refused.add(name)
    world.run_ms(600_000)
    assert told(world) == [f"{PATHS[0]}/{name}"] * 4  # after 5 s, 1, 3 and 7 minutes
    assert not world.offline and T1 in world.logs.logs
    disk.refused.clear()
    world.run_ms(600_000)
    assert name not in disk.list_dir(PATHS[0])


def test_a_leftover_that_cannot_be_removed_at_a_start_is_tried_again() -> None:
    world = DirectoriesWorld()
    fill(world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id), 3)
    world.logs.delete(T0)
    world.kill()
    world.start(refused={"-delete"})
    assert len(told(world)) == 1 and not world.offline
    (name,) = (name for name in world.process.disk.list_dir(PATHS[0]) if name.endswith("-delete"))
    world.refuse_removal().refused.clear()
    world.run_ms(70_000)
    assert name not in world.process.disk.list_dir(PATHS[0])


def test_a_segment_file_that_cannot_be_removed_holds_up_no_other() -> None:
    world = DirectoriesWorld()
    disk = world.refuse_removal()
    log = world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    fill(log, 40)
    log.move_high_watermark(40)
    log.advance_log_start(30)
    disk.refused.add(f"{0:020}.log.deleted")
    world.logs.apply_retention()
    world.run_ms(20_000)
    left = [name for name in disk.list_dir(f"{PATHS[0]}/{T0}") if name.endswith(".deleted")]
    assert left == [f"{0:020}.log.deleted"] and not world.offline
