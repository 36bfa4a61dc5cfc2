"""Recovery passes plain batches in few steps each: it finds and leaves what the long way does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import LOG
from barnabas.log.partition import bulk_recovery, crash_recovery, log_loader
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.raft.core.batches import data_batch
from barnabas.record.batch import HEADER, stamp_producer
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition

FOLDER = "/data/t-0"
WALL_MS = 1_750_000_000_000
PARTITION = TopicPartition("t", 0)
CRASHED = log_loader.LogCheckpoints(clean=False)


def opened(
    device: SimDisk,
    config: LogConfig,
    checkpoints: log_loader.LogCheckpoints = CRASHED,
) -> log_loader.LoadedLog:
    disk = device.open_for_process()
    return log_loader.open_log(FileCache(disk), FOLDER, PARTITION, config, checkpoints)


def written(seed: int, config: LogConfig) -> SimDisk:
    """A log as a crash leaves it: of small batches mostly, some with a producer, some of them damaged."""
    rng = random.Random(seed)
    device = SimDisk(rng)
    device.open_for_process().make_dirs("/data")
    log = opened(device, config).log
    epoch = 1
    for _ in range(300):
        epoch += rng.random() < 0.05
        stamp = WALL_MS + rng.randrange(-5_000, 5_000)
        values = [rng.randbytes(rng.choice((0, 30, 300)))] * rng.choice((1, 1, 1, 20))
        batch = bytearray(data_batch(values, log.log_end_offset, epoch, stamp))
        if rng.random() < 0.004:
            stamp_producer(batch, rng.randrange(3), 0, -1)
        log.append_as_leader(batch, leader_epoch=epoch, wall_ms=WALL_MS, origin=AppendOrigin.QUORUM)
    log.close(clean=False)
    if rng.random() < 0.7:
        _damage(device, rng)
    return device


def _damage(device: SimDisk, rng: random.Random) -> None:
    """A torn end, zeros behind it, a flipped bit: in the last file mostly, or a leader epoch, which no CRC
    covers."""
    paths = [path for path in device.below(FOLDER) if path.endswith(LOG)]
    path = rng.choice([paths[-1], *paths])
    size = len(device.content(path))
    if not size:
        return
    file = device.open_for_process().open(path)
    kind = rng.randrange(4)
    if kind == 0:
        file.truncate(size - rng.randrange(min(size, 200)))
    elif kind == 1:
        file.append([bytes(rng.randrange(1, 5_000))])
    elif kind == 2:
        device.rot(path, rng.randrange(size), rng.randrange(8))
    else:
        position = 0
        while position + HEADER.size <= size and rng.random() < 0.95:
            at = position
            position += HEADER.unpack_from(device.content(path), position)[1] + 12
        file.write_at(at + 12, rng.choice((b"\0\0\0\0", b"\0\0\0\x20")))


def _read(log: PartitionLog) -> bytes | str:
    try:
        found = log.read(log.log_start_offset, 1 << 30)
    except CorruptLogError as error:
        return str(error)
    return bytes(found.records) if found is not None else b""


def _state(device: SimDisk, log: PartitionLog, found: log_loader.LoadedLog) -> dict[str, Any]:
    told: dict[str, Any] = {
        "end": (log.log_start_offset, log.log_end_offset, log.recovery_point),
        "epochs": (log.epochs.latest, [log.epoch_end_offset(epoch) for epoch in range(1, 40)]),
        "stamps": [(s.first_timestamp, s.max_timestamp, s.size) for s in log.segments],
        "offsets": [s.offset_of_max_timestamp for s in log.segments],
        "cut": (found.cut_bytes, found.fault),
        "read": _read(log),
    }
    log.append_as_leader(
        data_batch([b"next"], 0, 99, WALL_MS),
        leader_epoch=99,
        wall_ms=WALL_MS,
        origin=AppendOrigin.QUORUM,
    )
    log.close(clean=True)
    return told | {path: device.content(path) for path in sorted(device.below(FOLDER))}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_short_way_through_the_batches_finds_what_the_long_one_does(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LogConfig(
        segment_bytes=random.Random(seed).choice((10_000, 1 << 20)), index_interval_bytes=500
    )
    passed: list[int] = []
    short = bulk_recovery.check_plain

    def counted(segment: Any, position: int, *rest: Any) -> tuple[int, int]:
        end, offset = short(segment, position, *rest)
        passed.append(end - position)
        return end, offset

    def long(segment: Any, position: int, least: int, *_: Any) -> tuple[int, int]:
        return position, least

    monkeypatch.setattr(bulk_recovery, "WINDOW_BYTES", random.Random(seed).choice((3_000, 1 << 20)))
    states = []
    for way in (counted, long):
        monkeypatch.setattr(crash_recovery, "check_plain", way)
        device = written(seed, config)
        point = random.Random(seed).choice((0, 0, 100))
        found = opened(device, config, CRASHED._replace(recovery_point=point))
        states.append(_state(device, found.log, found))
    assert states[0] == states[1]
    assert sum(passed) > 1_000 or states[0]["cut"] != (0, "")
