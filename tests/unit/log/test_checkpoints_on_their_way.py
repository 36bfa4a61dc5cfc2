"""Checkpoints of logs that are gone, or were cut, say nothing of what is written in their place."""

from __future__ import annotations

import pytest

from barnabas.log import checkpoints
from barnabas.log.partition_log import PartitionLog
from barnabas.types import TopicPartition, Uuid
from tests.unit.log.directories_world import DirectoriesWorld
from tests.unit.log.test_directories import TOPIC_ID, fill

T0 = TopicPartition("t", 0)
OTHER_ID = Uuid(b"another topic id")


def create(world: DirectoriesWorld, topic_id: Uuid) -> PartitionLog:
    return world.logs.create(T0, topic_id, world.logs.directories[0].directory_id)


@pytest.mark.parametrize("name", [checkpoints.LOG_START, checkpoints.HIGH_WATERMARK])
def test_one_under_way_does_not_come_after_that_of_a_topic_made_anew(name: str) -> None:
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
