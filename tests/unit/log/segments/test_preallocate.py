"""``preallocate=true`` on real files: as long as a segment while it is active, never longer than its
batches when it is closed, and read as before after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk
from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LoadedLog, LogCheckpoints, open_log
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition

CONFIG = LogConfig(segment_bytes=8192, preallocate=True, index_interval_bytes=200)


class Disk:
    """A log's directory and the process that has it open."""

    def __init__(self, path: Path) -> None:
        self.directory = path / "t-0"
        self.open(clean=True)

    def open(self, *, clean: bool, recovery_point: int = 0) -> LoadedLog:
        disk = HostDisk()
        opened = open_log(
            FileCache(disk, limit=3),
            str(self.directory),
            TopicPartition("t", 0),
            CONFIG,
            LogCheckpoints(clean=clean, recovery_point=recovery_point),
        )
        self.log = opened.log
        return opened

    def append(self, count: int) -> None:
        for _ in range(count):
            batch = build_batch([(b"k", b"v" * 100)] * 3, timestamp_ms=1_700_000_000_000)
            self.log.append_as_leader(batch, leader_epoch=0, wall_ms=1_700_000_000_000)

    def sizes(self) -> list[int]:
        return [path.stat().st_size for path in sorted(self.directory.glob("*.log"))]

    def read(self) -> int:
        """How many records there are."""
        offset = 0
        while offset < self.log.log_end_offset:
            found = self.log.read(offset, 1000)
            assert found is not None
            for batch in iterate(found.records, crc=True):
                assert batch.header.base_offset == offset
                offset = batch.header.next_offset
        return offset


def test_an_active_segment_has_its_room_and_a_closed_one_gives_the_rest_back(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path)
    disk.append(3)
    assert disk.sizes() == [8192] and disk.read() == 9
    disk.append(40)
    sizes = disk.sizes()
    assert len(sizes) == len(disk.log.segments) > 2
    assert sizes == [segment.size for segment in disk.log.segments[:-1]] + [8192]
    assert disk.read() == 129
    disk.log.close()
    assert disk.sizes() == [segment.size for segment in disk.log.segments]
    opened = disk.open(clean=True)
    assert opened == (disk.log, 0, "") and disk.read() == 129
    disk.append(1)
    assert disk.read() == 132


@pytest.mark.parametrize("synced", [True, False])
def test_preallocated_space_after_a_crash_is_no_torn_batch(tmp_path: Path, synced: bool) -> None:
    disk = Disk(tmp_path)
    disk.append(5)
    if synced:
        disk.log.flush()
    opened = disk.open(clean=False, recovery_point=15 if synced else 0)  # as after kill -9
    assert opened.fault == "" and opened.cut_bytes == 8192 - disk.log.active.size
    assert disk.sizes() == [disk.log.active.size] and disk.read() == 15
    disk.append(40)
    assert disk.read() == 135


def test_a_batch_that_was_torn_in_preallocated_space_is_reported(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.append(5)
    end = disk.log.active.size
    with (disk.directory / f"{0:020d}.log").open("r+b") as file:
        file.seek(end)
        file.write(bytes(10) + b"\x01half a batch")
    opened = disk.open(clean=False)
    assert opened.fault and disk.read() == 15 and disk.sizes() == [end]


def test_a_reopened_file_continues_behind_its_batches(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path)
    disk.append(2)
    disk.log.files.close_all()
    disk.append(2)
    assert disk.read() == 12
