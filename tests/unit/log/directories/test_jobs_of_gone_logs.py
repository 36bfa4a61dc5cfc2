"""A job that was held up works on names. By then the segment, or the whole log, may be gone and another one
may stand there: nothing is left in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compactor import LocalCompactor
from barnabas.log.file_names import LOG
from barnabas.log.partition import segment_repair
from barnabas.log.partition.partition_log import PartitionLog
from tests.unit.log.directories.test_checkpoints_on_their_way import OTHER_ID, create
from tests.unit.log.directories.test_directories import T0, TOPIC_ID, fill
from tests.unit.log.directories_world import PATHS, DirectoriesWorld


def segments_on_disk(world: DirectoriesWorld) -> list[str]:
    return [n for n in world.process.disk.list_dir(f"{PATHS[0]}/{T0}") if n.endswith(LOG)]


def known(log: PartitionLog) -> list[str]:
    return [segment.path.rpartition("/")[2] for segment in log.segments]


def begun(
    world: DirectoriesWorld,
) -> tuple[PartitionLog, cleaning_pass.CleaningPlan, LocalCompactor]:
    """A log of many segments, and a round that has read it."""
    world.config = replace(world.config, cleanup_policy=("compact", "delete"))
    log = create(world, TOPIC_ID)
    fill(log, 60, b"k")
    log.flush()
    log.durability.compactable_to, log.high_watermark = log.recovery_point, log.log_end_offset
    plan = cleaning_pass.make_plan(log, 0, 0)
    compactor = LocalCompactor()
    compactor.begin(plan, 1000)
    return log, plan, compactor


def test_compaction_recreates_no_file_that_retention_deleted() -> None:
    world = DirectoriesWorld()
    log, plan, compactor = begun(world)
    log.advance_log_start(log.segments[3].base_offset)
    assert log.delete_old_segments(0)
    with pytest.raises(FileNotFoundError):
        compactor.clean(cleaning_pass.groups_of(plan, plan.bound)[0])
    assert segments_on_disk(world) == known(log)


def test_compaction_creates_no_file_in_a_recreated_log() -> None:
    """A clean start took the last one for where the log ends."""
    world = DirectoriesWorld()
    _, plan, compactor = begun(world)
    world.logs.delete(T0)
    log = create(world, OTHER_ID)
    fill(log, 5, b"k")
    for group in cleaning_pass.groups_of(plan, plan.bound)[1:]:
        with pytest.raises(FileNotFoundError):
            compactor.clean(group)
    assert segments_on_disk(world) == known(log)
    world.stop()
    world.start()
    assert world.logs.logs[T0].log_end_offset == 5


def test_repair_recreates_no_file_that_retention_deleted() -> None:
    world = DirectoriesWorld()
    log, _, _ = begun(world)
    place = segment_repair.location_of(log, log.segments[1].path)
    assert place is not None
    log.advance_log_start(log.segments[3].base_offset)
    log.delete_old_segments(0)
    with pytest.raises(FileNotFoundError):
        segment_repair.examine(place)
    damage = segment_repair.Damage(0, place.base_offset, place.size, place.end_offset, {})
    with pytest.raises(FileNotFoundError):
        segment_repair.rebuild(place, damage, [])
    assert segments_on_disk(world) == known(log)


def test_a_segment_that_was_removed_is_reported_and_not_recreated() -> None:
    """Its readers got what the next one begins with, and the next start found an empty one."""
    world = DirectoriesWorld()
    log = create(world, TOPIC_ID)
    fill(log, 60)
    gone = log.segments[2]
    world.logs.files.close_all()
    world.process.disk.remove(gone.path)
    with pytest.raises(FileNotFoundError):
        log.read(gone.base_offset, 1)
    assert gone.path.rpartition("/")[2] not in segments_on_disk(world)
