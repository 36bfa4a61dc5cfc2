"""Many logs are closed a few per turn, others are served in between, and only a whole end is proven."""

from __future__ import annotations

import json

import pytest

from barnabas.types import TopicPartition
from tests.unit.log.directories.test_directories import TOPIC_ID, fill
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

MANY = 150


def filled(count: int = MANY) -> DirectoriesWorld:
    world = DirectoriesWorld()
    for at in range(count):
        fill(world.logs.create(TopicPartition("t", at), TOPIC_ID), 2)
    return world


def proof(world: DirectoriesWorld, path: str) -> int | None:
    name = f"{path}/.kafka_cleanshutdown"
    if world.disk.names.get(name) is None:
        return None
    epoch: int = json.loads(world.disk.file(name).data)["brokerEpoch"]
    return epoch


def test_requests_are_served_while_logs_are_closed() -> None:
    world = filled()
    seen: list[int] = []
    done: list[bool] = []

    def look() -> None:
        if not done:
            assert world.logs.log_shutdown is not None
            seen.append(world.logs.log_shutdown.closed)
            world.process.wakeups.call_at(world.world.now_ms + 0.2, look)

    world.logs.shutdown(5, lambda: done.append(True))
    look()
    assert not done, "nothing is closed in the turn that asks for it"
    world.run_ms(5_000)
    assert done == [True]
    assert seen == sorted(seen)
    assert len(set(seen)) > 4, "it continues bit by bit"
    assert world.logs.log_shutdown is not None and world.logs.log_shutdown.closed == MANY
    assert len(world.logs.files) == 0


@pytest.mark.slow
def test_a_closed_log_opens_with_all_its_records_proven() -> None:
    world = filled()
    world.stop(broker_epoch=9)
    for path in PATHS:
        assert proof(world, path) == 9
    world.disk.process_died(power_loss=True)
    world.start()
    assert world.logs.previous_broker_epoch == 9
    assert [log.log_end_offset for log in world.logs.logs.values()] == [2] * MANY
    for kind in ("recovery_points", "high_watermarks"):
        found = [getattr(directory, kind) for directory in world.logs.directories]
        assert sum(map(len, found)) == MANY
        assert {offset for entries in found for offset in entries.values()} == {2}


@pytest.mark.slow
def test_a_process_that_dies_half_way_has_proven_nothing() -> None:
    world = filled()
    world.logs.shutdown(5, lambda: None)
    assert world.logs.log_shutdown is not None
    while not world.logs.log_shutdown.closed:
        world.world.step()
    world.kill(power_loss=True)
    assert [proof(world, path) for path in PATHS] == [None, None]
    world.start()
    assert world.logs.previous_broker_epoch == -1
    assert len(world.logs.logs) <= MANY


def test_a_disk_that_fails_half_way_leaves_the_other_directory_its_proof() -> None:
    world = filled()
    done: list[bool] = []
    world.logs.shutdown(5, lambda: done.append(True))
    assert world.logs.log_shutdown is not None
    while not world.logs.log_shutdown.closed:
        world.world.step()
    world.disk.fail_call(1, for_good=True, prefix=PATHS[0])
    world.run_ms(5_000)
    assert done == [True]
    assert [proof(world, path) for path in PATHS] == [None, 5]
    assert "closing it failed" in world.logs.directories[0].offline_reason
    assert world.logs.directories[1].is_online


@pytest.mark.slow
def test_a_directory_that_fails_elsewhere_meanwhile_does_not_hold_up_the_end() -> None:
    world = DirectoriesWorld()
    for at in range(MANY):
        home = world.logs.directories[at % 2].directory_id
        fill(world.logs.create(TopicPartition("t", at), TOPIC_ID, home), 2)
    done: list[bool] = []
    world.logs.shutdown(5, lambda: done.append(True))
    assert world.logs.log_shutdown is not None
    while not world.logs.log_shutdown.closed:
        world.world.step()
    world.logs.fail(world.logs.directories[0], "removing old files failed")
    world.run_ms(5_000)
    assert done == [True]
    assert [proof(world, path) for path in PATHS] == [None, 5]


def test_an_end_without_logs_is_an_end() -> None:
    world = filled(0)
    world.stop(broker_epoch=3)
    assert [proof(world, path) for path in PATHS] == [3, 3]
