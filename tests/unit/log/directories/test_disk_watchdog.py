"""A disk that hangs: its directory goes offline after a minute, the other one and the node live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from barnabas.limits import DISK_SILENT_MS_MAX
from barnabas.types import TopicPartition
from tests.unit.log.directories.test_directories import TOPIC_ID, fill
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

HERE, THERE = TopicPartition("here", 0), TopicPartition("there", 0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> DirectoriesWorld:
    """The first directory's jobs never end."""
    world = DirectoriesWorld()
    for at, partition in enumerate((HERE, THERE)):
        world.logs.create(partition, TOPIC_ID, world.logs.directories[at].directory_id)
    run = world.process.background.run

    def hang(queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if not queue.endswith(PATHS[0]):
            run(queue, job, done)

    monkeypatch.setattr(world.process.background, "run", hang)
    return world


def test_a_directory_whose_disk_answers_nothing_goes_offline(world: DirectoriesWorld) -> None:
    for partition in (HERE, THERE):
        fill(world.logs.logs[partition], 3)
        world.logs.sync(world.logs.logs[partition])
    world.run_ms(DISK_SILENT_MS_MAX - 5000)
    assert world.offline == []
    world.run_ms(10_000)
    assert world.offline == [(PATHS[0], [HERE])]
    assert world.logs.directories[0].offline_reason == "its disk has not answered for a minute"
    world.run_ms(3 * DISK_SILENT_MS_MAX)
    assert list(world.logs.logs) == [THERE]


def test_time_that_passed_without_the_process_is_not_the_disks(world: DirectoriesWorld) -> None:
    fill(world.logs.logs[HERE], 3)
    world.logs.sync(world.logs.logs[HERE])
    world.process.pause(3 * DISK_SILENT_MS_MAX)
    world.run_ms(3 * DISK_SILENT_MS_MAX + 5000)
    assert world.offline == []


def test_a_disk_that_hangs_keeps_no_other_from_a_clean_end(world: DirectoriesWorld) -> None:
    for partition in (HERE, THERE):
        fill(world.logs.logs[partition], 3)
        world.logs.sync(world.logs.logs[partition])
    world.run_ms(DISK_SILENT_MS_MAX + 5000)
    assert world.offline
    ended: list[bool] = []
    world.logs.when_synced(partial(world.logs.shutdown, 5, partial(ended.append, True)))
    world.run_ms(1000)
    assert ended
    assert world.process.disk.exists(f"{PATHS[1]}/.kafka_cleanshutdown")


@pytest.mark.slow
def test_a_disk_that_hangs_in_a_cleaning_pass_ends_it_when_it_goes_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other directory's logs are compacted then, and one that is created there again from its start."""
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "100"})
    world.config = replace(world.config, cleanup_policy=("compact",))
    first, second = world.logs.directories
    run = world.process.background.run

    def hang(queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if queue != f"clean {first.path}":
            run(queue, job, done)

    monkeypatch.setattr(world.process.background, "run", hang)
    fill(world.logs.create(HERE, TOPIC_ID, first.directory_id), 40, b"k")
    world.run_ms(90_000)
    fill(world.logs.create(THERE, TOPIC_ID, second.directory_id), 40, b"k")
    world.run_ms(90_000)
    assert world.logs.cleaner.rounds == 0
    world.logs.fail(first, "its disk hangs")
    fill(world.logs.create(HERE, TOPIC_ID, second.directory_id), 40, b"k")
    world.run_ms(200_000)
    assert all(log.size < 10_000 for log in world.logs.logs.values())
