"""The quorum's log: the short ways for what is appended and asked for all the time equal the long ones."""

from __future__ import annotations

import random

import pytest

from barnabas.limits import RaftBounds
from barnabas.log.errors import OffsetOutOfRange
from barnabas.raft.core.batches import data_batch, iter_runs
from barnabas.raft.storage.replica_log import PartitionRaftLog
from barnabas.sim.world.disk import SimDisk

TAIL_APPENDS_MAX = RaftBounds().tail_appends_max
TAIL_BYTES_MAX = RaftBounds().tail_bytes_max

FOLDER = "/data/__cluster_metadata-0"
WALL_MS = 1_750_000_000_000


def opened(device: SimDisk, segment_bytes: int = 1 << 20) -> PartitionRaftLog:
    return PartitionRaftLog.open(
        device.open_for_process(),
        FOLDER,
        start_offset=0,
        segment_bytes=segment_bytes,
        segment_ms=10**9,
    )


def a_device(seed: int) -> SimDisk:
    device = SimDisk(random.Random(seed))
    device.open_for_process().make_dirs(FOLDER)
    return device


def a_run(rng: random.Random, offset: int, epoch: int) -> bytes:
    """One batch mostly, of a size that fits the tail mostly."""
    batches = []
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        values = [rng.randbytes(rng.choice((0, 10, 100, 700)))] * rng.choice((1, 1, 3, 40))
        batches.append(data_batch(values, offset, epoch, WALL_MS + offset * rng.choice((0, 1_000))))
        offset += len(values)
    return b"".join(batches)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_short_way_into_the_log_leaves_the_same_files(seed: int) -> None:
    rng = random.Random(seed)
    devices = a_device(seed), a_device(seed)
    short, long = (
        opened(device, segment_bytes=rng.choice((20_000, 1 << 20))) for device in devices
    )
    long.partition_log.config = short.partition_log.config
    epoch = 1
    for _ in range(400):
        epoch += rng.random() < 0.02
        run = a_run(rng, short.end_offset, epoch)
        short.append(memoryview(run))
        long.partition_log.append_as_follower(run)
        if rng.random() < 0.02:
            offset = rng.randrange(max(short.end_offset - 50, 0), short.end_offset)
            short.truncate_to(offset)
            long.truncate_to(offset)
        one, other = short.partition_log, long.partition_log
        assert (one.log_end_offset, one.durability.unsynced_messages) == (
            other.log_end_offset,
            other.durability.unsynced_messages,
        )
        assert one.producers.end_offset == other.producers.end_offset
    assert (
        len(short.partition_log.segments) > 1 or short.partition_log.config.segment_bytes > 1 << 19
    )
    for log in (short, long):
        log.close(clean=True)
    files = [sorted(device.below(FOLDER)) for device in devices]
    assert files[0] == files[1]
    for path in files[0]:
        assert devices[0].content(path) == devices[1].content(path), path


@pytest.mark.parametrize("seed", range(4))
def test_a_read_from_memory_equals_the_disk(seed: int) -> None:
    rng = random.Random(seed)
    log = opened(a_device(seed))
    starts = []
    for _ in range(120):
        starts.append(log.end_offset)
        log.append(memoryview(a_run(rng, log.end_offset, 1)))
    rest = (TAIL_BYTES_MAX, log.end_offset)
    remembered = [offset for offset in starts if log.read_kept(offset, *rest) is not None]
    assert 1 < len(remembered) <= TAIL_APPENDS_MAX
    assert starts[-1] in remembered and starts[0] not in remembered
    for _ in range(500):
        offset = rng.choice(starts[-2 * TAIL_APPENDS_MAX :])
        up_to = rng.choice([start for start in starts if start > offset] + [log.end_offset])
        most = rng.choice((1, 500, 5_000, TAIL_BYTES_MAX))
        kept = log.read_kept(offset, most, up_to)
        data = log.read(offset, most, up_to) if kept is None else kept
        stored = log.partition_log.read(offset, 1 << 20, up_to=up_to)
        assert stored is not None
        assert bytes(stored.records).startswith(bytes(data))
        first = next(iter_runs(stored.records))
        assert len(data) <= max(most, first.size) and len(data) >= first.size


def test_a_range_that_memory_has_in_part_is_read_from_disk() -> None:
    """Where it may have rotted: each reader has to check it there (seed 401181)."""
    log = opened(a_device(1))
    log.append(data_batch([b"a"], 0, 1, WALL_MS) + data_batch([b"b"], 1, 1, WALL_MS))
    log.append(data_batch([b"c"], 2, 1, WALL_MS))
    whole = log.read_kept(0, 10_000, 3)
    assert whole is not None and [run.end_offset for run in iter_runs(whole)] == [1, 2, 3]
    assert log.read_kept(0, 10_000, 1) is None, "one append, of which a part is committed"
    assert log.read_kept(0, 100, 3) is None, "more than was asked for"
    assert log.read_kept(1, 10_000, 3) is None, "from within an append"


def test_truncated_or_deleted_entries_are_not_read_from_memory() -> None:
    log = opened(a_device(1))
    for offset in range(10):
        log.append(data_batch([b"before"], offset, 1, WALL_MS))
    log.truncate_to(5)
    assert log.read_kept(4, 10_000, 5) is None
    log.append(data_batch([b"after"], 5, 2, WALL_MS))
    for data in (log.read(5, 10_000, 6), log.read_kept(5, 10_000, 6)):
        assert data is not None
        (run,) = iter_runs(data)
        assert run.epoch == 2
    log.restart_at(100)
    assert log.read_kept(5, 10_000, 6) is None
    with pytest.raises(OffsetOutOfRange):
        log.read(5, 10_000, 6)
    log.append(data_batch([b"x"], 100, 2, WALL_MS))
    log.append(data_batch([b"x"], 101, 2, WALL_MS))
    log.partition_log.high_watermark = 102
    log.partition_log.advance_log_start(101)
    with pytest.raises(OffsetOutOfRange):
        log.read(100, 10_000, 102)
