"""A segment that was to take the place of others when the process died, and what the disk has done to it."""

from __future__ import annotations

import pytest

from barnabas.log.file_names import LOG, SWAP, file_name
from barnabas.log.partition import segment_swap
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.batch import HEADER_SIZE
from tests.unit.log.directories.test_directories import T0, TOPIC_ID, fill
from tests.unit.log.directories_world import DirectoriesWorld

LENGTH_AT = 8


def unfinished() -> tuple[DirectoriesWorld, PartitionLog, str]:
    """The first two segments of several are to become one."""
    world = DirectoriesWorld()
    log = world.logs.create(T0, TOPIC_ID, world.logs.directories[0].directory_id)
    fill(log, 30)
    path = f"{log.directory}/{file_name(0, LOG)}{SWAP}"
    both = b"".join(world.disk.content(segment.path) for segment in log.segments[:2])
    world.process.disk.write_atomic(path, both)
    return world, log, path


def bases(world: DirectoriesWorld, log: PartitionLog) -> list[int]:
    names = world.process.disk.list_dir(log.directory)
    return [int(name.removesuffix(LOG)) for name in names if name.endswith(LOG)]


def test_a_covered_segment_is_removed() -> None:
    world, log, _ = unfinished()
    segment_swap.finish(world.process.disk, log.directory, 0)
    assert bases(world, log) == [0, *log.bases[2:]]


@pytest.mark.parametrize(
    ("at", "rotten"),
    [
        pytest.param(0, bytes(HEADER_SIZE), id="zeros"),
        pytest.param(LENGTH_AT, (-12).to_bytes(4, "big", signed=True), id="no length"),
        pytest.param(LENGTH_AT, (-400).to_bytes(4, "big", signed=True), id="backwards"),
        pytest.param(3, b"\xff", id="another offset"),
    ],
)
def test_a_rotten_segment_removes_no_other(at: int, rotten: bytes) -> None:
    """All segments behind it went, the active one too, or the start did not end."""
    world, log, path = unfinished()
    position = log.segments[0].size
    data = bytearray(world.disk.content(path))
    data[position + at : position + at + len(rotten)] = rotten
    world.process.disk.write_atomic(path, bytes(data))
    segment_swap.finish(world.process.disk, log.directory, 0)
    assert bases(world, log) == log.bases


@pytest.mark.parametrize("at", [0, 5, LENGTH_AT, HEADER_SIZE + 5])
def test_a_single_misread_changes_nothing(at: int) -> None:
    world, log, path = unfinished()
    last = len(world.disk.content(path)) - log.segments[0].size // 5
    world.disk.misread(path, last + at)
    segment_swap.finish(world.process.disk, log.directory, 0)
    assert bases(world, log) == [0, *log.bases[2:]]
