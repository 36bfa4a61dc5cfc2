"""Future logs: copies that follow cuts and deletions of their source, take its place, and leave exactly one
valid log whatever ends in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.log.directories.future_log_copy import align, append_run
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.unit.log.directories.test_directories import T0, TOPIC_ID, fill, values
from tests.unit.log.directories_world import PATHS, DirectoriesWorld


def begin(world: DirectoriesWorld, batches: int = 12) -> tuple[PartitionLog, PartitionLog]:
    """A log in the first directory and its empty copy in the second."""
    first, second = world.logs.directories
    source = world.logs.create(T0, TOPIC_ID, first.directory_id)
    fill(source, batches)
    return source, world.logs.futures.create(T0, second, source)


def copy_all(source: PartitionLog, copy: PartitionLog, runs: int = 1000) -> None:
    align(source, copy)
    while copy.log_end_offset < source.log_end_offset and runs:
        found = source.read(copy.log_end_offset, 1000)
        assert found is not None
        assert append_run(source, copy, found.records)
        runs -= 1


def names(world: DirectoriesWorld, path: str) -> list[str]:
    return [name for name in world.process.disk.list_dir(path) if name.startswith("t-0")]


def test_a_whole_copy_takes_the_place_of_its_source() -> None:
    world = DirectoriesWorld()
    source, copy = begin(world)
    assert names(world, PATHS[1])[0].endswith("-future")
    copy_all(source, copy)
    source.epochs.assign(7, source.log_end_offset)  # a leadership that wrote nothing yet
    expected = values(source)
    log = world.logs.futures.replace_current(T0)
    assert log is copy is world.logs.logs[T0]
    assert world.logs.directory_of(T0) is world.logs.directories[1]
    assert values(log) == expected
    assert (log.last_epoch, log.high_watermark) == (7, 12)
    assert names(world, PATHS[1]) == ["t-0"]
    assert names(world, PATHS[0])[0].endswith("-delete")
    fill(log, 3)
    world.run_ms(10_000)
    assert names(world, PATHS[0]) == []
    world.kill()
    world.start()
    assert len(values(world.logs.logs[T0])) == 15
    assert world.logs.directory_of(T0) is world.logs.directories[1]
    assert world.logs.logs[T0].topic_id == TOPIC_ID


def test_a_copy_that_begins_behind_its_source_has_no_epoch_from_before() -> None:
    """Of the two log starts only the copy's was on disk when the process died."""
    world = DirectoriesWorld()
    source, copy = begin(world)
    copy_all(source, copy)
    copy.high_watermark = 12
    copy.advance_log_start(5)
    log = world.logs.futures.replace_current(T0)
    assert (log.log_start_offset, log.epochs.entries()) == (5, [(1, 5)])


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_copy_continues_after_a_restart(ending: str) -> None:
    world = DirectoriesWorld()
    source, copy = begin(world)
    copy_all(source, copy, runs=3)
    copied = copy.log_end_offset
    assert 0 < copied < 12
    getattr(world, ending)()
    world.start()
    copy = world.logs.futures.logs[T0]
    assert copy.log_end_offset == copied
    copy_all(world.logs.logs[T0], copy)
    assert len(values(world.logs.futures.replace_current(T0))) == 12


def test_a_copy_follows_the_cuts_of_its_source() -> None:
    world = DirectoriesWorld()
    source, copy = begin(world)
    copy_all(source, copy)
    source.truncate_to(7)
    batch = build_batch([(None, b"of another leader")], timestamp_ms=1_750_000_000_000)
    source.append_as_leader(batch, leader_epoch=2, wall_ms=1_750_000_000_000)
    copy_all(source, copy)
    assert values(copy) == values(source)
    source.truncate_to(5)
    source.append_as_leader(batch, leader_epoch=3, wall_ms=1_750_000_000_000)
    copy_all(source, copy)
    assert values(copy) == values(source) and copy.last_epoch == 3
    source.truncate_fully_and_start_at(40)
    copy_all(source, copy)
    assert (copy.log_start_offset, copy.log_end_offset) == (40, 40)


def test_a_log_that_begins_inside_a_batch_is_copied_from_that_batch_on() -> None:
    world = DirectoriesWorld()
    first, second = world.logs.directories
    source = world.logs.create(T0, TOPIC_ID, first.directory_id)
    batch = build_batch([(None, b"%d" % at) for at in range(5)], timestamp_ms=1_750_000_000_000)
    for _ in range(2):
        source.append_as_leader(batch, leader_epoch=1, wall_ms=1_750_000_000_000)
    source.high_watermark = 10
    source.advance_log_start(3)
    copy = world.logs.futures.create(T0, second, source)
    copy_all(source, copy)
    assert (copy.log_start_offset, copy.log_end_offset) == (3, 10)
    assert copy.segments[0].base_offset == 0


def test_a_copy_stays_one_while_the_current_log_may_be_offline() -> None:
    world = DirectoriesWorld()
    source, copy = begin(world)
    copy_all(source, copy)
    moved = world.logs.futures.replace_current(T0)  # what is left in the first directory waits
    back = world.logs.futures.create(T0, world.logs.directories[0], moved)
    copy_all(moved, back, runs=1)
    assert 0 < back.log_end_offset < moved.log_end_offset
    world.kill()
    world.disk.fail_call(1, for_good=True, prefix=PATHS[1])
    world.start(unreadable=[PATHS[1]])
    assert T0 not in world.logs.logs and T0 in world.logs.futures.logs
    world.kill()
    world.disk.fail_call(0)
    world.start()
    assert world.logs.logs[T0].log_end_offset == 12
    assert world.logs.directory_of(T0) is world.logs.directories[1]
    assert [name for name in names(world, PATHS[0]) if name.endswith("-delete")] == []


def test_a_swap_that_was_interrupted_is_finished_when_every_directory_is_back() -> None:
    world = DirectoriesWorld()
    source, copy = begin(world)
    copy_all(source, copy)
    copy.flush()
    world.logs.delayed_delete.set_aside(world.logs.directories[0], source)
    world.kill()
    other = "/disk3/logs"
    world.start(unreadable=[other])
    assert T0 not in world.logs.logs
    world.kill()
    world.start()
    assert world.logs.logs[T0].log_end_offset == 12


def test_a_deleted_partition_takes_its_copy_along() -> None:
    world = DirectoriesWorld()
    source, copy = begin(world)
    copy_all(source, copy, runs=2)
    world.logs.delete(T0)
    assert not world.logs.futures.logs
    world.run_ms(10_000)
    assert not names(world, PATHS[0]) and not names(world, PATHS[1])


def test_a_name_that_would_be_too_long_is_refused() -> None:
    world = DirectoriesWorld()
    first, second = world.logs.directories
    source = world.logs.create(TopicPartition("x" * 240, 0), TOPIC_ID, first.directory_id)
    with pytest.raises(KafkaError) as refused:
        world.logs.futures.create(source.partition, second, source)
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def swap(world: DirectoriesWorld) -> None:
    """A move from beginning to end, as the broker makes it; disk errors take directories offline."""
    first, second = world.logs.directories
    try:
        source = world.logs.create(T0, TOPIC_ID, first.directory_id)
        fill(source, 12)
        source.flush()
    except (OSError, KafkaError) as error:
        world.logs.fail(first, str(error))
        return
    try:
        copy = world.logs.futures.create(T0, second, source)
        copy_all(source, copy)
        copy.flush()
        world.logs.futures.replace_current(T0)
    except KafkaError:
        pass
    except OSError as error:
        world.logs.fail(first if PATHS[0] in str(error) else second, str(error))
    log = world.logs.logs.get(T0)
    if log is not None:
        try:
            fill(log, 3)
            log.flush()
        except OSError as error:
            world.logs.fail_log(T0, error)
    world.run_ms(10_000)


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 1], ids=["source", "target"])
@pytest.mark.parametrize("for_good", [True, False], ids=["for_good", "once"])
def test_any_disk_call_of_a_move_may_fail(for_good: bool, failing: int) -> None:
    nth = moved = 0
    while True:
        nth += 1
        world = DirectoriesWorld(seed=nth)
        world.disk.fail_call(nth, for_good=for_good, prefix=PATHS[failing])
        swap(world)
        other = world.logs.directories[1 - failing]
        assert other.is_online, f"call {nth}: {other.offline_reason}"
        if failing == 1:
            assert T0 in world.logs.logs or world.logs.directories[1].offline_reason
            if world.logs.directory_of(T0) is world.logs.directories[0]:
                assert len(values(world.logs.logs[T0])) == 15, "the source lives"
        moved += world.logs.directory_of(T0) is world.logs.directories[1]
        hit = world.disk.fault_was_hit
        world.kill()
        world.disk.fail_call(0)
        world.start()
        log = world.logs.logs.get(T0)
        assert log is None or len(values(log)) == log.log_end_offset
        if not hit:
            assert log is not None and log.log_end_offset == 15
            break
    assert nth > 30 and moved


class Killed(BaseException):
    """The process ends here."""


def killing(check: Callable[[str], None], nth: int) -> Callable[[str], None]:
    """`check`, but the `nth` call never comes back."""
    left = [nth]

    def counted(path: str) -> None:
        left[0] -= 1
        if not left[0]:
            raise Killed
        check(path)

    return counted


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power_loss"])
def test_a_process_may_end_at_any_call_of_a_move(
    monkeypatch: pytest.MonkeyPatch, power_loss: bool
) -> None:
    nth = 0
    while True:
        nth += 1
        world = DirectoriesWorld(seed=nth)
        source, copy = begin(world)
        source.flush()
        durable = source.log_end_offset
        monkeypatch.setattr(world.disk, "check_call", killing(world.disk.check_call, nth))
        ended = False
        try:
            copy_all(source, copy)
            copy.flush()
            world.logs.futures.replace_current(T0)
        except Killed:
            ended = True
        monkeypatch.undo()
        world.kill(power_loss=power_loss)
        world.start()
        assert all(d.is_online for d in world.logs.directories), world.offline
        log = world.logs.logs[T0]
        assert len(values(log)) == log.log_end_offset == durable
        copy_or_none = world.logs.futures.logs.get(T0)
        if copy_or_none is not None:
            copy_all(log, copy_or_none)
            copy_or_none.flush()
            log = world.logs.futures.replace_current(T0)
            assert len(values(log)) == durable
        assert world.logs.directory_of(T0) is world.logs.directories[1]
        if not ended:
            break
    assert nth > 20


def test_a_log_set_aside_stays_where_the_copys_new_name_was_not_synced() -> None:
    """Once that directory is back under its old name, the copy would belong to no log without the other."""
    world = DirectoriesWorld()
    source, copy = begin(world)
    copy_all(source, copy)
    copy.flush()
    world.logs.futures.replace_current(T0)
    world.disk.fail_call(1, for_good=True, prefix=PATHS[1])
    world.run_ms(10_000)
    assert not world.logs.directories[1].is_online
    assert names(world, PATHS[0])[0].endswith("-delete")


@pytest.mark.parametrize("left", [b"", b"version: 0\ntopic_id: MDEyM", None])
def test_a_copy_of_an_unknown_topic_starts_again(left: bytes | None) -> None:
    """The file is durable with the first sync, and a copy is synced when it has caught up. In its log's place
    it took the directory offline with the next clean start, or passed for another topic's."""
    world = DirectoriesWorld()
    source, copy = begin(world)
    copy_all(source, copy, 3)
    source.flush()
    path = f"{copy.directory}/partition.metadata"
    world.kill()
    if left is None:
        del world.disk.names[path]
    else:
        world.disk.file(path).data[:] = left
    world.start()
    copy = world.logs.futures.logs[T0]
    assert copy.topic_id == TOPIC_ID and world.logs.futures.directory_of(T0) is not None
    copy_all(world.logs.logs[T0], copy)
    world.logs.futures.replace_current(T0)
    world.stop()
    world.start()
    assert all(directory.is_online for directory in world.logs.directories)
    log = world.logs.logs[T0]
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 12)
    assert names(world, PATHS[1]) == ["t-0"]
