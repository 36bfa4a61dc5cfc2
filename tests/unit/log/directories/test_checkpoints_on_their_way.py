"""Checkpoints of logs that are gone, or were cut, say nothing of what is written in their place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.log import checkpoints
from barnabas.log.compaction import cleaning_pass
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.types import TopicPartition, Uuid
from tests.unit.log.directories.test_directories import TOPIC_ID, fill
from tests.unit.log.directories_world import DirectoriesWorld

T0 = TopicPartition("t", 0)
OTHER_ID = Uuid(b"another topic id")


def create(world: DirectoriesWorld, topic_id: Uuid) -> PartitionLog:
    return world.logs.create(T0, topic_id, world.logs.directories[0].directory_id)


@pytest.mark.parametrize("name", [checkpoints.LOG_START, checkpoints.HIGH_WATERMARK])
def test_a_pending_checkpoint_does_not_overwrite_that_of_a_recreated_topic(name: str) -> None:
    world = DirectoriesWorld()
    old = create(world, TOPIC_ID)
    fill(old, 60)
    old.advance_log_start(55)
    world.logs.checkpoint(name)
    world.logs.delete(T0)
    fill(create(world, OTHER_ID), 50)
    world.run_ms(500)
    world.kill()
    world.start()
    new = world.logs.logs[T0]
    assert new.topic_id == OTHER_ID
    assert (new.log_start_offset, new.high_watermark) == (0, 0)


@pytest.mark.parametrize("name", [checkpoints.LOG_START, checkpoints.HIGH_WATERMARK])
def test_the_next_one_may_be_over_before_this_one_is_put_in_its_place(name: str) -> None:
    world = DirectoriesWorld()
    log = create(world, TOPIC_ID)
    fill(log, 60)
    world.process.background._eager_rate = 1.0
    world.logs.checkpoint(name)
    log.advance_log_start(55)
    world.logs.checkpoint(name)
    world.run_ms(500)
    assert not world.offline
    world.kill()
    world.start()
    assert world.logs.logs[T0].log_start_offset == 55 or name != checkpoints.LOG_START


def compacted(world: DirectoriesWorld) -> PartitionLog:
    """A log of which compaction has written the most again, and said so."""
    world.config = replace(
        world.config, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01
    )
    log = create(world, TOPIC_ID)
    fill(log, 80, b"k")
    world.run_ms(100_000)
    assert world.logs.cleaner.rounds and world.logs.directories[0].compacted()[T0] > 50
    return log


def test_compaction_restarts_where_the_directory_of_a_logs_namesake_failed() -> None:
    world = DirectoriesWorld()
    compacted(world)
    first, second = world.logs.directories
    world.logs.fail(first, "its disk failed")
    log = world.logs.create(T0, OTHER_ID, second.directory_id)
    fill(log, 60, b"k")
    assert not second.compacted()
    rounds = world.logs.cleaner.rounds
    world.run_ms(100_000)
    assert world.logs.cleaner.rounds == rounds + 1 and second.compacted()[T0] > 40


def lose_a_batch_inside(world: DirectoriesWorld, log: PartitionLog) -> int:
    """A device loses the end of one of several unsynced segments; its offset. What follows is there."""
    first, second = log.segments[:2]
    _, position = first.end_before(second.base_offset - 1)
    lost = second.base_offset - 1
    world.kill()
    world.disk.file(first.path).truncate(position)
    return lost


@pytest.mark.parametrize("how", ["recreated", "cut", "cut while another is compacted"])
def test_an_earlier_compaction_excuses_no_gap_in_new_records(how: str) -> None:
    world = DirectoriesWorld()
    log = compacted(world)
    if how == "recreated":
        world.logs.delete(T0)
        log = create(world, OTHER_ID)
    else:
        log.truncate_fully_and_start_at(0)
    if how == "cut while another is compacted":
        directory = world.logs.directories[0]
        job, finish = directory.compaction_job(world.logs.cleaner.first_dirty)
        job()
        assert finish()
    fill(log, 20, b"k")
    lost = lose_a_batch_inside(world, log)
    world.start()
    assert world.logs.logs[T0].log_end_offset == lost


def test_a_cleaner_checkpoint_is_due_again_where_another_log_was_cut() -> None:
    world = DirectoriesWorld()
    log = compacted(world)
    directory, other = world.logs.directories[0], TopicPartition("t", 1)
    fill(world.logs.create(other, TOPIC_ID, directory.directory_id), 5, b"k")
    job, finish = directory.compaction_job({T0: 40})
    job()
    directory.lower_recovery_points()
    assert not finish() and directory.compacted()[T0] > 50
    assert log.log_end_offset == 80


def test_compaction_waits_until_the_recovery_point_is_in_its_place() -> None:
    world = DirectoriesWorld()
    log = create(world, TOPIC_ID)
    fill(log, 80)
    log.flush()
    world.logs.checkpoint(checkpoints.RECOVERY_POINT)
    # With the power lost now recovery would begin at 0 and take what compaction left out for lost.
    assert not cleaning_pass.make_plan(log, 0, 1000).sources
    world.run_ms(500)
    assert cleaning_pass.make_plan(log, 0, 1000).sources[-1].end_offset == log.active.base_offset
    log.truncate_to(31)
    assert cleaning_pass.make_plan(log, 0, 1000).sources[-1].end_offset <= 31
