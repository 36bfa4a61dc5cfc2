"""Rounds of compaction that do not come to their end: what they leave behind, and when the next one comes."""

from __future__ import annotations

from dataclasses import replace
from errno import ENOSPC
from typing import Any

import pytest

from barnabas.log.compaction import cleaning_pass
from barnabas.log.directories.future_log_copy import align, append_run, begin
from barnabas.log.directories.log_listener import LogListener
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import CLEANED, REPAIRED
from barnabas.log.partition import segment_repair
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.types import TopicPartition
from tests.model.log.test_compaction import Compacted
from tests.unit.log.compaction.test_compaction import again
from tests.unit.log.directories.test_directories import T0, T1, TOPIC_ID, fill, upkeep, values
from tests.unit.log.directories.test_future_logs import copy_all
from tests.unit.log.directories_world import PATHS, DirectoriesWorld

HERE = f"{PATHS[0]}/{T0}"


def dirty(world: DirectoriesWorld, partition: TopicPartition = T0) -> PartitionLog:
    """A log of which nearly all can go, which the next round may take."""
    world.config = replace(world.config, cleanup_policy=("compact",), segment_bytes=1500)
    log = world.logs.create(partition, TOPIC_ID, world.logs.directories[0].directory_id)
    fill(log, 40, b"k")
    log.flush()
    log.durability.compactable_to, log.high_watermark = log.recovery_point, log.log_end_offset
    return log


def left(world: DirectoriesWorld, suffix: str) -> list[str]:
    return [name for name in world.process.disk.list_dir(HERE) if name.endswith(suffix)]


def test_a_single_misread_does_not_end_the_compaction_of_a_log() -> None:
    """The repair found it sound, and the log was left alone until the next start."""
    world = DirectoriesWorld()
    log, found = dirty(world), list[CorruptLogError]()

    def on_corrupt(partition: TopicPartition, fault: CorruptLogError) -> None:
        found.append(fault)
        world.disk.rot(log.segments[1].path, 100)  # as it was
        place = segment_repair.location_of(log, fault.path)
        assert place is not None and segment_repair.examine(place) is None
        world.logs.cleaner.on_sound(partition)

    world.logs.events.listen(LogListener(on_corrupt=on_corrupt))
    world.disk.rot(log.segments[1].path, 100)
    world.run_ms(100_000)
    assert len(found) == 1 and not world.logs.cleaner.uncleanable
    assert len(values(log)) < 10


def test_a_sound_log_that_cannot_be_compacted_is_tried_twice() -> None:
    world = DirectoriesWorld()
    dirty(world)
    tried = 0

    def refuse(*others: object) -> object:
        nonlocal tried
        tried += 1
        raise CorruptLogError("a file", 7, "its records are not what its CRC covers")

    with pytest.MonkeyPatch().context() as monkeypatch:
        world.logs.events.listen(
            LogListener(on_corrupt=lambda partition, fault: world.logs.cleaner.on_sound(partition))
        )
        monkeypatch.setattr(cleaning_pass, "build_map", refuse)
        world.run_ms(200_000)
    assert tried == 2 and list(world.logs.cleaner.uncleanable) == [T0]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["make_plan", "groups_of", "swap"])
def test_a_log_whose_compaction_hits_a_bug_keeps_no_other_from_compaction(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was compacted any more: it was tried first each time, or its round did not end."""
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "100"})
    logs = [dirty(world, partition) for partition in (T0, T1)]
    sound = getattr(cleaning_pass, step)

    def fail(*arguments: Any) -> Any:
        if any(logs[0] is it or getattr(it, "directory", "") == HERE for it in arguments):
            raise ZeroDivisionError
        return sound(*arguments)

    monkeypatch.setattr(cleaning_pass, step, fail)
    assert upkeep(world, 200_000)
    assert list(world.logs.cleaner.uncleanable) == ([] if step == "make_plan" else [T0])
    assert len(values(logs[1])) < 10


@pytest.mark.parametrize("how", ["pause", "forget"])
def test_a_round_that_is_given_up_while_it_writes_leaves_nothing(how: str) -> None:
    world = DirectoriesWorld(settings={"log.cleaner.backoff.ms": "100"})
    dirty(world)
    clean = cleaning_pass.clean_group

    def given_up(*arguments: object) -> cleaning_pass.Cleaned:
        getattr(world.logs.cleaner, how)(T0)
        world.logs.cleaner.pause(T0)
        return clean(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch().context() as monkeypatch:
        monkeypatch.setattr(cleaning_pass, "clean_group", given_up)
        world.run_ms(10_000)
    assert world.logs.cleaner.rounds == 0 and not left(world, CLEANED)


@pytest.mark.slow
def test_a_segment_that_could_not_be_written_to_its_end_leaves_nothing() -> None:
    failed = 0
    for nth in range(1, 100):
        world = DirectoriesWorld()
        plan = cleaning_pass.make_plan(dirty(world), 0, 0)
        keys = cleaning_pass.build_map(plan, 1000)
        world.disk.fail_call(nth, error=ENOSPC)
        try:
            cleaning_pass.clean_group(plan, list(plan.sources), keys, cleaning_pass.trail_of(plan))
        except OSError:
            failed += 1
            assert not left(world, CLEANED)
        else:
            break
    assert failed > 10


def test_a_mended_segment_that_could_not_be_written_to_its_end_leaves_nothing() -> None:
    world = DirectoriesWorld()
    log = dirty(world)
    place = segment_repair.location_of(log, log.segments[1].path)
    assert place is not None
    world.disk.rot(log.segments[1].path, place.size - 5)  # since it was examined
    damage = segment_repair.Damage(0, place.base_offset, 0, place.base_offset, {})
    with pytest.raises(CorruptLogError):
        segment_repair.rebuild(place, damage, [])
    assert not left(world, REPAIRED)


def test_a_copy_that_takes_the_place_of_a_log_that_was_left_alone_is_compacted() -> None:
    world = DirectoriesWorld()
    source = dirty(world)
    copy = world.logs.futures.create(T0, world.logs.directories[1], source)
    copy_all(source, copy)
    world.logs.cleaner.uncleanable[T0] = "a batch rotted"
    log = world.logs.futures.replace_current(T0)
    assert not world.logs.cleaner.uncleanable
    world.run_ms(200_000)
    assert len(values(log)) < 10


def test_a_copy_that_continues_after_a_start_restores_no_deleted_record() -> None:
    """It had a record; compaction took that and its tombstone from the log while the copy lay in a directory
    that was offline. The rest of the log says nothing of that key any more."""
    model = Compacted(1)
    model.write([1, 2, 3], False, 0, -1)
    source = model.log
    copy = open_log(
        FileCache(model.disk, 6),
        "/data/copy",
        source.partition,
        model.config,
        LogCheckpoints(clean=True),
    ).log
    fill_up(source, copy)
    assert copy.log_end_offset == 3
    model.write([1], True, 0, -1)
    for _ in range(3):
        model.write([2, 3], False, 0, -1)
        again(model)
    begin(source, copy)
    fill_up(source, copy)
    assert copy.log_end_offset == source.log_end_offset
    model.log = copy
    model.check()


def fill_up(source: PartitionLog, copy: PartitionLog) -> None:
    align(source, copy)
    while copy.log_end_offset < source.log_end_offset:
        found = source.read(copy.log_end_offset, 1000)
        assert found is not None and append_run(source, copy, found.records)
