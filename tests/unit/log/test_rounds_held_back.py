"""Rounds of compaction that only the checkpoint of the recovery points holds back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from barnabas.log.partition.partition_log import PartitionLog
from barnabas.types import TopicPartition
from tests.unit.log.directories.test_directories import T0, T1, TOPIC_ID, fill
from tests.unit.log.directories_world import DirectoriesWorld

FOREVER = 1 << 60


def due(world: DirectoriesWorld, partition: TopicPartition = T0, at: int = 0) -> PartitionLog:
    """A log of which nearly all can go; it is durable, and no checkpoint says so."""
    world.config = replace(world.config, cleanup_policy=("compact",), segment_bytes=1500)
    directory = world.logs.directories[at]
    log = world.logs.create(partition, TOPIC_ID, directory.directory_id)
    fill(log, 40, b"k")
    log.flush()
    log.high_watermark = log.log_end_offset
    return log


def test_a_due_round_writes_the_checkpoint_it_waits_for() -> None:
    """Not a minute later, when the next checkpoint comes."""
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "1000"})
    log = due(world)
    world.run_ms(5_000)
    assert world.logs.cleaner.rounds == 1 and log.durability.compactable_to == log.recovery_point
    assert world.logs.directories[0].compacted()[T0] == log.active.base_offset


def test_rounds_that_are_not_due_write_no_checkpoint() -> None:
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "1000"})
    log = due(world)
    log.config = replace(log.config, min_compaction_lag_ms=1 << 60)
    world.run_ms(5_000)
    assert log.durability.compactable_to == 0 < log.recovery_point


def test_a_disk_that_hangs_in_that_checkpoint_keeps_no_other_from_compaction() -> None:
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "1000"})
    due(world)
    world.run_ms(900)
    directory = world.logs.directories[0]
    waiting = list[object]()
    run = world.process.background.run

    def hang(queue: str, job: Callable[[], object], done: Callable[[object], None]) -> None:
        if queue == f"checkpoint {directory.path}":
            waiting.append(done)
        else:
            run(queue, job, done)

    with pytest.MonkeyPatch().context() as monkeypatch:
        monkeypatch.setattr(world.process.background, "run", hang)
        world.run_ms(3_000)
        assert waiting and world.logs.cleaner.rounds == 0
        world.run_ms(120_000)
        assert not directory.is_online
        due(world, T1, at=1)
        world.run_ms(5_000)
    assert world.logs.cleaner.rounds == 1
