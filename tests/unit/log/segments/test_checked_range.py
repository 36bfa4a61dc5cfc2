"""What an earlier process wrote is checked by CRC once, whichever part of it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk
from barnabas.log.config import DEFAULT_CONFIG
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments import checked_range
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition

BATCH = build_batch([(None, b"x" * 100)], timestamp_ms=1)
BATCHES = 20
BYTES = 5 * len(BATCH) + 30
"""Of a read that ends within a batch."""


@pytest.fixture
def reopened(tmp_path: Path) -> PartitionLog:
    partition, disk = TopicPartition("t", 0), HostDisk()
    path = f"{tmp_path}/{partition}"
    log = open_log(
        FileCache(disk), path, partition, DEFAULT_CONFIG, LogCheckpoints(clean=False)
    ).log
    for _ in range(BATCHES):
        log.append_as_leader(BATCH, leader_epoch=1, wall_ms=1)
    log.close()
    return open_log(
        FileCache(disk), path, partition, DEFAULT_CONFIG, LogCheckpoints(clean=True)
    ).log


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where each run of batches began that was checked."""
    positions: list[int] = []
    check_run = checked_range.check_run

    def noted(path: str, base: int, position: int, data: bytes) -> tuple[int, int, int]:
        positions.append(position)
        return check_run(path, base, position, data)

    monkeypatch.setattr(checked_range, "check_run", noted)
    return positions


def test_a_read_that_ends_within_a_batch_is_checked_once(
    reopened: PartitionLog, checked: list[int]
) -> None:
    for _ in range(3):
        reopened.read(0, BYTES)
    reopened.read(2, BYTES - 2 * len(BATCH))
    assert checked == [0]
    reopened.read(2, BYTES)
    assert checked == [0, 2 * len(BATCH)]
    reopened.read(0, 7 * len(BATCH) + 30)
    assert checked == [0, 2 * len(BATCH)]


def test_the_batch_within_which_a_read_ended_is_checked_by_the_next_one(
    reopened: PartitionLog, checked: list[int]
) -> None:
    reopened.read(0, BYTES)
    path = Path(reopened.active.path)
    data = bytearray(path.read_bytes())
    data[6 * len(BATCH) - 1] ^= 1
    path.write_bytes(data)
    reopened.read(0, BYTES)
    for offset in (5, 0):
        with pytest.raises(CorruptLogError):
            reopened.read(offset, 6 * len(BATCH))
    assert checked == [0, 5 * len(BATCH), 0]


def test_a_segment_that_was_read_to_its_end_is_trusted(
    reopened: PartitionLog, checked: list[int]
) -> None:
    for offset in range(0, BATCHES, 5):
        reopened.read(offset, BYTES)
    assert reopened.active.checked.trusted_from == 0
    reopened.read(0, BATCHES * len(BATCH))
    assert len(checked) == BATCHES // 5
