"""Every operation on a log directory meets a disk call that fails: the 1st, the 2nd, ... until none is hit,
once or for good. Then the process is killed or the power goes, and on a healed disk the next start finds
every log as it was, or shorter by records that were not durable; the other directory never notices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from barnabas.log import checkpoints
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError
from tests.unit.log.directories.test_directories import TOPIC_ID, fill, values
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

FIRST, SECOND, THIRD, OTHER = (TopicPartition("t", at) for at in range(4))
CALLS_MAX = 400
BATCHES = 15

Operation = Callable[[DirectoriesWorld], None]


def prepared() -> DirectoriesWorld:
    """Two logs with several segments, synced and checkpointed; a third one in the other directory."""
    world = DirectoriesWorld(seed=3, settings={"log.cleaner.backoff.ms": "1000"})
    here, there = (directory.directory_id for directory in world.logs.directories)
    for partition, home in ((FIRST, here), (SECOND, here), (OTHER, there)):
        fill(world.logs.create(partition, TOPIC_ID, home), BATCHES)
        world.logs.sync(world.logs.logs[partition])
    world.run_ms(100)
    for name in (checkpoints.RECOVERY_POINT, checkpoints.HIGH_WATERMARK, checkpoints.LOG_START):
        world.logs.checkpoint(name)
    world.run_ms(100)
    return world


def checkpoint(name: str) -> Operation:
    def operation(world: DirectoriesWorld) -> None:
        fill(world.logs.logs[FIRST], 1)
        world.logs.checkpoint(name)
        world.run_ms(100)

    return operation


def create(world: DirectoriesWorld) -> None:
    log = world.logs.create(THIRD, TOPIC_ID, world.logs.directories[0].directory_id)
    fill(log, 3)


def delete(world: DirectoriesWorld) -> None:
    world.logs.delete(SECOND)
    world.run_ms(6000)


def set_aside(world: DirectoriesWorld) -> None:
    world.logs.delete(SECOND, is_stray=True)
    world.run_ms(100)


def delete_records(world: DirectoriesWorld) -> None:
    world.logs.logs[FIRST].advance_log_start(9)
    world.logs.apply_retention()
    world.run_ms(6000)


def flush_messages(world: DirectoriesWorld) -> None:
    log = world.logs.logs[FIRST]
    log.reconfigure(replace(log.config, flush_messages=1))
    before = log.log_end_offset
    fill(log, 2)
    world.logs.after_append(log, before)
    world.run_ms(100)


def truncate(world: DirectoriesWorld) -> None:
    world.logs.logs[FIRST].truncate_to(4)
    fill(world.logs.logs[FIRST], 1)
    world.run_ms(2000)


def compact(world: DirectoriesWorld) -> None:
    log = world.logs.logs[FIRST]
    log.reconfigure(
        replace(log.config, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)
    )
    fill(log, 10, key=b"k")
    world.logs.sync(log)
    world.run_ms(10_000)


OPERATIONS: dict[str, Operation] = {
    "create": create,
    "delete": delete,
    "set_aside": set_aside,
    "delete_records": delete_records,
    "flush_messages": flush_messages,
    "truncate": truncate,
    "compact": compact,
    "checkpoint_recovery_points": checkpoint(checkpoints.RECOVERY_POINT),
    "checkpoint_high_watermarks": checkpoint(checkpoints.HIGH_WATERMARK),
    "checkpoint_log_starts": checkpoint(checkpoints.LOG_START),
    "begin_writing": lambda world: world.logs.begin_writing(),
    "close": lambda world: world.shut_down(),
}


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power_loss"])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for_good"])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_directory_survives_any_failing_call(name: str, for_good: bool, power_loss: bool) -> None:
    for nth in range(1, CALLS_MAX):
        world = prepared()
        world.disk.fail_call(nth, for_good=for_good, prefix=PATHS[0])
        try:
            OPERATIONS[name](world)
        except (OSError, KafkaError) as error:
            log = world.logs.logs.get(FIRST)
            if log is not None and isinstance(error, OSError):  # as the broker does
                world.logs.fail_log(FIRST, error)
        directory = world.logs.directories[0]
        failed = world.disk.totals["calls_failed"]
        if not directory.is_online:
            assert directory.offline_reason and failed
        assert world.logs.directories[1].is_online
        hit = world.disk.fault_was_hit
        world.disk.fail_call(0)
        world.kill(power_loss=power_loss)
        world.start()
        check(world, name)
        if not hit:
            return
    raise AssertionError("the operation never came through")


def check(world: DirectoriesWorld, name: str) -> None:
    logs = world.logs.logs
    assert all(directory.is_online for directory in world.logs.directories)
    assert len(values(logs[OTHER])) == BATCHES
    if SECOND in logs or name not in ("delete", "set_aside"):
        assert len(values(logs[SECOND])) == BATCHES
    first = logs[FIRST]
    found = [int((value or b"").rstrip(b"x")) for value in values(first)]
    start = first.log_start_offset
    if name == "compact":
        # Without a key nothing is kept; of one key at least the last record that is there.
        written = iter([*range(BATCHES), *range(10)][: first.log_end_offset])
        assert all(value in written for value in found), "they stand in their order"
        assert first.log_end_offset >= BATCHES
        if first.log_end_offset > BATCHES:
            assert found[-1] == first.log_end_offset - BATCHES - 1
    elif name == "truncate":
        assert found[:4] == list(range(4))
        assert found[4:] in ([0], []) or found[: len(found)] == list(range(len(found)))
    else:
        wrote = [*range(BATCHES), 0, 1]
        assert found == wrote[start : start + len(found)]
        assert first.log_end_offset >= BATCHES
    fill(first, 1)
