"""Log directories: what a start finds, what stays open, what goes, and that one may fail alone."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barnabas.log.checkpoints import CLEANER, read_offsets, write_offsets
from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compaction_rules import OffsetMap
from barnabas.log.directories.log_directories import DirectoryInUse, resolve_duplicate
from barnabas.log.file_cache import FileCache
from barnabas.log.partition import log_loader
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.record.decode import records_of
from barnabas.types import TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = Uuid(b"0123456789abcdef")


def fill(log: PartitionLog, batches: int, key: bytes | None = None) -> None:
    for at in range(batches):
        batch = build_batch([(key, b"%d" % at + b"x" * 300)], timestamp_ms=1_750_000_000_000)
        log.append_as_leader(batch, leader_epoch=1, wall_ms=1_750_000_000_000)
    log.high_watermark = log.log_end_offset


def values(log: PartitionLog) -> list[bytes | None]:
    offset, found = log.log_start_offset, list[bytes | None]()
    while offset < log.log_end_offset:
        read = log.read(offset, 10_000)
        assert read is not None
        for batch in iterate(read.records):
            found += [record.value for record in records_of(batch)]
            offset = batch.header.next_offset
    return found


def test_a_clean_shutdown_counts_once_and_opens_without_reading_old_batches() -> None:
    world = DirectoriesWorld()
    log = world.logs.create(T0, TOPIC_ID)
    fill(log, 40)
    home = world.logs.directory_of(T0)
    assert home is not None
    assert world.logs.previous_broker_epoch == -1
    world.stop(broker_epoch=42)
    proof = world.disk.file(f"{home.path}/.kafka_cleanshutdown").data
    assert json.loads(proof) == {"version": 0, "brokerEpoch": 42}
    world.start(writing=False)
    assert world.logs.previous_broker_epoch == 42
    world.kill()
    world.start(writing=False)
    assert world.logs.previous_broker_epoch == 42, "killed before it wrote anything"
    world.stop(broker_epoch=-1)
    world.start()
    assert world.logs.previous_broker_epoch == 42, "ended before it was in the cluster"
    log = world.logs.logs[T0]
    assert (log.log_end_offset, log.high_watermark, log.last_epoch) == (40, 40, 1)
    assert log.topic_id == TOPIC_ID
    assert len(values(log)) == 40
    world.kill()
    world.start()
    assert world.logs.previous_broker_epoch == -1, "the proof holds until something is written"
    assert len(values(world.logs.logs[T0])) == 40


def test_the_proof_of_a_clean_shutdown_does_not_come_back_after_a_power_loss() -> None:
    for seed in range(10):
        world = DirectoriesWorld(seed)
        fill(world.logs.create(T0, TOPIC_ID), 3)
        world.stop()
        world.start()
        fill(world.logs.logs[T0], 3)
        world.kill(power_loss=True)
        world.start()
        assert world.logs.previous_broker_epoch == -1
        assert len(values(world.logs.logs[T0])) >= 3


@pytest.mark.parametrize("seed", range(10))
def test_a_log_empty_at_a_clean_end_is_made_durable_with_its_first_records(
    seed: int,
) -> None:
    """Also the file that has its topic's id, without which it belongs to no topic (seed 304487)."""
    world = DirectoriesWorld(seed)
    world.logs.create(T0, TOPIC_ID)
    world.stop()
    world.start()
    log = world.logs.logs[T0]
    fill(log, 1)
    log.flush()
    world.kill(power_loss=True)
    world.start()
    log = world.logs.logs[T0]
    assert log.topic_id == TOPIC_ID and values(log) == [b"0" + b"x" * 300]


def test_logs_spread_over_the_directories() -> None:
    world = DirectoriesWorld()
    for at in range(4):
        world.logs.create(TopicPartition("t", at), TOPIC_ID)
    assert [len(directory.logs) for directory in world.logs.directories] == [2, 2]
    asked = world.logs.directories[1].directory_id
    world.logs.create(TopicPartition("u", 0), TOPIC_ID, asked)
    assert TopicPartition("u", 0) in world.logs.directories[1].logs


def test_a_failing_directory_goes_offline_with_its_logs_only() -> None:
    world = DirectoriesWorld()
    first = world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    second = world.logs.create(T1, TOPIC_ID, world.logs.directories[1].directory_id)
    world.disk.fail_call(1, for_good=True, prefix=PATHS[0])
    with pytest.raises(OSError) as caught:
        fill(first, 1)
    world.logs.fail_log(T0, caught.value)
    assert world.offline == [(PATHS[0], [T0])]
    assert "t-0" in world.logs.directories[0].offline_reason
    assert list(world.logs.logs) == [T1]
    fill(second, 3)
    world.run_ms(120_000)
    assert len(values(second)) == 3
    with pytest.raises(KafkaError) as refused:
        world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    world.stop()
    world.disk.fail_call(0)
    world.start()
    assert sorted(world.logs.logs) == [T0, T1]


def test_a_directory_that_cannot_be_opened_leaves_the_others() -> None:
    world = DirectoriesWorld()
    world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    world.logs.create(T1, TOPIC_ID, world.logs.directories[1].directory_id)
    world.stop()
    world.process = world.machine.start_process()
    for path in list(world.disk.names):
        if path.startswith(f"{PATHS[0]}/t-0"):
            del world.disk.names[path]
    world.disk.names[f"{PATHS[0]}/t-0"] = None
    world.disk.fail_call(1, for_good=True, prefix=f"{PATHS[0]}/t-0")
    world.start()
    assert list(world.logs.logs) == [T1] and world.offline[-1][0] == PATHS[0]


def test_a_fault_of_the_program_in_one_log_is_not_the_end_of_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which did not start any more."""
    world = DirectoriesWorld()
    world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    world.logs.create(T1, TOPIC_ID, world.logs.directories[1].directory_id)
    world.stop()

    def open_log(files: FileCache, directory: str, *rest: Any, **more: Any) -> Any:
        if directory.endswith("t-0"):
            raise IndexError("of garbage that was not foreseen")
        return log_loader.open_log(files, directory, *rest, **more)

    monkeypatch.setattr("barnabas.log.directories.log_directories.open_log", open_log)
    world.start()
    assert list(world.logs.logs) == [T1] and world.offline[-1][0] == PATHS[0]
    reason = world.logs.directories[0].offline_reason
    assert "IndexError" in reason and f"{PATHS[0]}/t-0" in reason
    with pytest.raises(IndexError):  # it is raised, and no run of the simulator passes over it
        world.run_ms(1)
    fill(world.logs.logs[T1], 3)
    world.run_ms(120_000)
    world.stop()
    monkeypatch.undo()
    world.start()
    assert sorted(world.logs.logs) == [T0, T1]


def test_one_process_has_a_directory_at_a_time() -> None:
    world = DirectoriesWorld()
    other = DirectoriesWorld.__new__(DirectoriesWorld)
    other.__dict__.update(world.__dict__)
    with pytest.raises(DirectoryInUse, match="in use"):
        other.start()


def test_deleted_partitions_go_after_the_delay_and_leave_successors_nothing() -> None:
    world = DirectoriesWorld()
    fill(world.logs.create(T0, TOPIC_ID), 30)
    world.run_ms(70_000)  # checkpoints speak of it now
    world.logs.delete(T0)
    names = [name for name in world.disk.names if name.endswith("-delete")]
    assert len(names) == 1 and T0 not in world.logs.logs
    home = world.logs.create(T0, Uuid(b"another topic id"))
    assert home.log_end_offset == 0
    fill(home, 2)
    world.kill()
    world.start()
    log = world.logs.logs[T0]
    assert (log.log_end_offset, log.topic_id) == (2, b"another topic id")
    assert log.high_watermark <= 2
    assert not [name for name in world.disk.names if name.endswith("-delete")]


def test_a_deleted_partition_is_removed_in_time() -> None:
    world = DirectoriesWorld()
    fill(world.logs.create(T0, TOPIC_ID), 3)
    world.logs.delete(T0)
    world.run_ms(3000)
    assert any("-delete" in name for name in world.disk.names)
    world.run_ms(4000)
    assert not any("-delete" in name for name in world.disk.names)


def test_retention_takes_old_segments_out_and_their_files_go_later() -> None:
    world = DirectoriesWorld()
    log = world.logs.create(T0, TOPIC_ID)
    fill(log, 40)
    before = len(log.segments)
    log.reconfigure(replace(world.config, retention_bytes=3000))
    world.logs.apply_retention()
    assert 1 < len(log.segments) < before and log.size >= 3000
    assert log.log_start_offset == log.segments[0].base_offset > 0
    assert any(name.endswith(".deleted") for name in world.disk.names)
    world.run_ms(8000)
    assert not any(name.endswith(".deleted") for name in world.disk.names)


@pytest.mark.parametrize("what", ["delete_old_segments", "sync_job"])
def test_a_log_whose_upkeep_fails_each_time_keeps_no_other_from_its_own(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those behind it, in the order of names, were never retained, or flushed in time."""
    world = DirectoriesWorld()
    world.config = replace(world.config, retention_bytes=3000, flush_ms=1000)
    logs = [world.logs.create(partition, TOPIC_ID) for partition in (T0, T1)]
    for log in logs:
        fill(log, 3)
    sound = getattr(PartitionLog, what)

    def fail(log: PartitionLog, *arguments: Any) -> Any:
        if log is logs[0]:
            raise ZeroDivisionError
        return sound(log, *arguments)

    monkeypatch.setattr(PartitionLog, what, fail)
    if what == "sync_job":
        faults = upkeep(world, 70_000)
        assert logs[1].recovery_point == logs[1].log_end_offset
    else:
        for log in logs:
            fill(log, 40)
        faults = upkeep(world, 320_000)
        assert logs[1].log_start_offset > 0
    assert faults and logs[0].log_start_offset == 0


def upkeep(world: DirectoriesWorld, ms: float) -> int:
    """How often it fails in this time."""
    faults, end = 0, world.world.now_ms + ms
    while world.world.now_ms < end:
        try:
            world.run_ms(min(end - world.world.now_ms, 5_000))
        except ZeroDivisionError:
            faults += 1
    return faults


def test_checkpoints_are_written_in_time() -> None:
    world = DirectoriesWorld()
    log = world.logs.create(T0, TOPIC_ID)
    fill(log, 40)
    world.run_ms(130_000)
    home = world.logs.directory_of(T0)
    assert home is not None
    points = read_offsets(world.process.disk, f"{home.path}/recovery-point-offset-checkpoint")
    assert 0 < points[T0] == log.recovery_point, "full segments were synced and checkpointed"


def compacted() -> tuple[DirectoriesWorld, PartitionLog]:
    """A log of several segments, of which two records would do."""
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "100"})
    world.config = replace(world.config, cleanup_policy=("compact",), segment_bytes=1500)
    log = world.logs.create(T0, TOPIC_ID)
    for key in (b"a", b"b", b"a", b"b"):
        fill(log, 5, key)
    return world, log


def test_a_compacted_log_is_cleaned_in_the_background() -> None:
    world, log = compacted()
    size = log.size
    world.run_ms(200_000)
    assert world.logs.cleaner.rounds >= 1 and log.size < size / 2
    home = world.logs.directory_of(T0)
    assert home is not None
    cleaned = read_offsets(world.process.disk, f"{home.path}/cleaner-offset-checkpoint")
    assert cleaned[T0] > 10
    left = values(log)
    world.kill()
    world.start()
    assert values(world.logs.logs[T0]) == left


def test_a_round_says_nothing_of_what_came_after_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last segments were in their place, and it waited for its throttle: what was written from the cut on
    counted as compacted, and was allowed gaps."""
    world, log = compacted()
    waiting = list[Callable[[], None]]()
    monkeypatch.setattr(world.logs.cleaner, "_throttle_ms", lambda work: 1.0)
    monkeypatch.setattr(world.logs.cleaner, "_after", lambda ms, action: waiting.append(action))
    for _ in range(200):
        world.run_ms(1000)
        if waiting:
            break
    while (work := world.logs.cleaner._round) is not None and work.groups:
        waiting.pop()()
        world.run_ms(100)
    assert work is not None and log.truncate_to(5)
    for action in waiting:
        action()
    world.run_ms(50)
    assert T0 not in world.logs.cleaner.first_dirty and log.generations.lowest_cut <= 5


def test_a_log_rolled_before_a_crash_is_compacted_without_new_records() -> None:
    world, log = compacted()
    size = log.size
    world.kill()
    world.start()
    log = world.logs.logs[T0]
    assert log.size == size
    log.move_high_watermark(log.log_end_offset)
    world.run_ms(70_000)
    assert log.size < size / 2


@pytest.mark.slow
def test_a_log_that_cannot_be_compacted_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "100"})
    world.config = replace(world.config, cleanup_policy=("compact",), segment_bytes=1500)
    for partition in (T0, T1):
        fill(world.logs.create(partition, TOPIC_ID), 20, b"k")
    build_map = cleaning_pass.build_map

    def fail(plan: cleaning_pass.CleaningPlan, *others: Any) -> OffsetMap:
        if plan.directory.endswith(str(T0)):
            raise MemoryError("too many keys")
        return build_map(plan, *others)

    monkeypatch.setattr(cleaning_pass, "build_map", fail)
    with pytest.raises(MemoryError):
        world.run_ms(200_000)
    world.run_ms(200_000)
    assert list(world.logs.cleaner.uncleanable) == [T0]
    assert len(values(world.logs.logs[T0])) == 20 and len(values(world.logs.logs[T1])) < 10


@pytest.mark.slow
@pytest.mark.parametrize("fails", ["delete_old_segments", "make_plan"])
def test_a_fault_of_one_log_is_not_the_end_of_upkeep(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "100"})
    world.config = replace(world.config, cleanup_policy=("compact", "delete"), segment_bytes=1500)
    fill(world.logs.create(T0, TOPIC_ID), 20, b"k")

    def fail(*others: object) -> None:
        monkeypatch.undo()
        raise MemoryError("for a moment")

    owner = PartitionLog if hasattr(PartitionLog, fails) else cleaning_pass
    monkeypatch.setattr(owner, fails, fail)
    with pytest.raises(MemoryError):  # the loop tells of it, and continues
        world.run_ms(200_000)
    world.run_ms(200_000)
    assert world.logs.cleaner.rounds
    world.logs.delete(T0)
    world.run_ms(10_000)
    names = [name for path in PATHS for name in world.process.disk.list_dir(path)]
    assert not [name for name in names if name.startswith(str(T0))]


def test_a_log_that_rolls_with_every_append_has_one_sync_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what came meanwhile is taken on by the one behind it (seed 800135)."""
    world = DirectoriesWorld()
    log = world.logs.create(T0, TOPIC_ID)
    run, begun = world.process.background.run, list[str]()

    def count(queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        begun.append(queue)
        run(queue, job, done)

    monkeypatch.setattr(world.process.background, "run", count)
    for _ in range(20):
        before = log.log_end_offset
        fill(log, 10)
        world.logs.after_append(log, before)
    assert len([queue for queue in begun if queue.startswith("sync ")]) == 1
    world.run_ms(50)
    assert log.recovery_point == log.log_end_offset
    assert len([queue for queue in begun if queue.startswith("sync ")]) == 2


def test_open_files_stay_bounded() -> None:
    world = DirectoriesWorld()
    world.logs.files.limit = 10
    for at in range(40):
        fill(world.logs.create(TopicPartition("many", at), TOPIC_ID), 2)
    assert len(world.logs.files) <= 10
    assert all(len(values(log)) == 2 for log in world.logs.logs.values())


def test_files_are_given_back_where_the_process_has_no_more_descriptors() -> None:
    world = DirectoriesWorld()
    for at in range(10):
        fill(world.logs.create(TopicPartition("many", at), TOPIC_ID), 2)
    files = world.logs.files
    files.close_all()
    for at in range(8):
        values(world.logs.logs[TopicPartition("many", at)])
    before = len(files)
    world.disk.fail_call(1, error=errno.EMFILE)
    assert len(values(world.logs.logs[TopicPartition("many", 9)])) == 2
    assert len(files) < before and not world.offline


def recreated(stale: int, topic_id: Uuid, compacted: int = 0) -> DirectoriesWorld:
    """Started where two directories have a log of T0: at `stale` of three batches, which was `compacted` so
    far, and, made for `topic_id` while that was away, the other one five."""
    world = DirectoriesWorld()
    old, new = (world.logs.directories[at] for at in (stale, 1 - stale))
    fill(world.logs.create(T0, TOPIC_ID, old.directory_id), 3)
    fill(world.logs.create(T1, TOPIC_ID, old.directory_id), 2)
    world.run_ms(1000)
    world.logs.fail(old, "its disk is gone")
    fill(world.logs.create(T0, topic_id, new.directory_id), 5)
    world.stop()
    if compacted:
        write_offsets(world.disk.open_for_process(), f"{old.path}/{CLEANER}", {T0: compacted})
    world.start()
    assert [directory.is_online for directory in world.logs.directories] == [True, True]
    return world


@pytest.mark.parametrize("stale", [0, 1])
def test_a_replica_created_again_elsewhere_wins_over_the_one_that_returns(
    stale: int,
) -> None:
    world = recreated(stale, TOPIC_ID)
    assert len(values(world.logs.logs[T0])) == 5
    assert world.logs.directory_of(T0) is world.logs.directories[1 - stale]
    assert len(values(world.logs.logs[T1])) == 2
    names = world.process.disk.list_dir(PATHS[stale])
    assert [name.startswith("t-0.") for name in names if name.endswith("-stray")] == [True]
    world.stop()
    world.start()
    assert len(values(world.logs.logs[T0])) == 5


OTHER_ID = Uuid(b"another-topic-id")


@pytest.mark.parametrize("wanted", [TOPIC_ID, OTHER_ID, None])
def test_the_metadata_decide_which_of_two_topics_of_one_name_has_the_replica(
    wanted: Uuid | None,
) -> None:
    """One was created again while the other one's directory was away (seed 300027)."""
    world = recreated(1, OTHER_ID)
    assert len(values(world.logs.logs[T1])) == 2
    resolve_duplicate(world.logs, T0, wanted)
    kept = world.logs.logs[T0]
    assert len(values(kept)) == (3 if wanted == TOPIC_ID else 5)
    home, aside = (0, 1) if kept.topic_id == OTHER_ID else (1, 0)
    assert world.logs.directory_of(T0) is world.logs.directories[home]
    world.run_ms(1000)
    names = world.process.disk.list_dir(PATHS[aside])
    assert [name.startswith("t-0.") for name in names if name.endswith("-stray")] == [True]
    world.stop()
    world.start()
    assert values(world.logs.logs[T0]) and not world.logs.duplicates


@pytest.mark.parametrize("topic_id", [TOPIC_ID, OTHER_ID])
def test_a_log_in_the_place_of_another_is_not_compacted_because_that_was(topic_id: Uuid) -> None:
    world = recreated(0, topic_id, compacted=3)
    resolve_duplicate(world.logs, T0, topic_id)
    assert len(values(world.logs.logs[T0])) == 5
    assert T0 not in world.logs.cleaner.first_dirty


def test_a_second_log_goes_with_its_directory() -> None:
    world = recreated(1, OTHER_ID)
    world.logs.fail(world.logs.directories[1], "its disk is gone again")
    resolve_duplicate(world.logs, T0, TOPIC_ID)
    assert world.logs.logs[T0].topic_id == OTHER_ID


@pytest.mark.slow
def test_a_directory_that_fails_while_it_is_opened_keeps_no_file_open() -> None:
    """Its volume may be taken out: the first call fails, the second, ... until none is hit."""
    failed = 0
    for number in range(1, 500):
        world = DirectoriesWorld()
        for partition, directory in zip((T0, T1), world.logs.directories):
            fill(world.logs.create(partition, TOPIC_ID, directory.directory_id), 20)
        world.process.kill()
        world.disk.fail_call(number, prefix=f"{PATHS[0]}/{T0}")
        world.start()
        names = [path for path in world.logs.files._files if path.startswith(PATHS[0])]
        if not world.disk.fault_was_hit:
            assert names
            break
        if not world.logs.directories[0].is_online:
            failed += 1
            assert not names, number
    assert failed > 10
