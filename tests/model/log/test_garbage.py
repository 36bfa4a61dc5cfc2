"""A bad sector anywhere in a log: it opens all the same, and serves nothing that was not written."""

from __future__ import annotations

import os
import random
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.errors import CorruptLogError
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.batch import iterate
from barnabas.sim.world.disk import SimDisk
from tests.effort import examples
from tests.model.log.log_model import DIRECTORY
from tests.model.log.moving_log import PARTITION, MovingPlainLog
from tests.unit.log.directories_world import PATHS
from tests.unit.log.partition.test_rot import hundred, opened

EXAMPLES = examples(int(os.environ.get("BARNABAS_MODEL_EXAMPLES", "2000")) // 10)
SECTORS = [1, 4, 64, 512]
BATCHES = 100
"""In the log."""


def files_below(disk: SimDisk, directory: str) -> list[str]:
    files = sorted(path for path in disk.names if path.startswith(f"{directory}/"))
    return [path for path in files if disk.names[path] is not None and disk.file(path).data]


def spoil(disk: SimDisk, rng: random.Random, directory: str = DIRECTORY) -> None:
    """Zeros or garbage somewhere in one of its files."""
    data = disk.file(rng.choice(files_below(disk, directory))).data
    at = rng.randrange(len(data))
    size = min(rng.choice(SECTORS), len(data) - at)
    data[at : at + size] = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)


def read_all(log: PartitionLog) -> None:
    """Each offset is reported as corrupt, or is in the batch that is read for it."""
    log.move_high_watermark(log.log_end_offset)
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            read = log.read(offset, 1)
        except CorruptLogError:
            continue
        assert read is not None
        batch = next(iter(iterate(read.records)))
        assert batch.header.base_offset <= offset < batch.header.next_offset


@settings(max_examples=EXAMPLES)
@given(
    seed=st.integers(0, 1 << 32),
    segment_bytes=st.sampled_from([1 << 20, 1500, 2500]),
    recovery_point=st.sampled_from([None, 0, 60, 95]),
    places=st.sampled_from([1, 1, 2]),
)
def test_garbage_anywhere_is_reported_and_never_served(
    seed: int, segment_bytes: int, recovery_point: int | None, places: int
) -> None:
    rng = random.Random(seed)
    disk, log = hundred(segment_bytes)
    log.close()
    disk.process_died()
    for _ in range(places):
        spoil(disk, rng)
    log = opened(disk, segment_bytes, recovery_point)
    if log.log_end_offset > BATCHES:
        # No CRC covers offsets, and nothing says where the log ended: what rotted was the last batch's.
        assert recovery_point is not None
        return
    read_all(log)
    for timestamp in (None, 5, 50):
        with suppress(CorruptLogError):
            log.search_job(timestamp)()
    with suppress(CorruptLogError):
        log.delete_old_segments(10**15)


@settings(max_examples=EXAMPLES // 2)
@given(
    seed=st.integers(0, 1 << 32),
    how=st.sampled_from(["stop", "kill", "power"]),
    directory=st.sampled_from(PATHS),
    is_gone=st.booleans(),
)
def test_garbage_anywhere_in_a_directory_ends_no_node(
    seed: int, how: str, directory: str, is_gone: bool
) -> None:
    """Or a file that is gone: where that is a log's after a clean end, no reader continues behind it."""
    model = MovingPlainLog(seed)
    rng, world = model.rng, model.world
    for _ in range(3):
        model.append(rng.choice([3, 12]), rng.choice([5, 90, 200]))
        model.commit()
        model.wait(rng.choice([1, 4000]))
    model.begin_move()
    model.copy_some(rng.choice([1, 3, 1000]))
    end = model.log.log_end_offset
    if how == "stop":
        world.stop()
    else:
        world.kill(power_loss=how == "power")
    if is_gone and how == "stop":
        del world.disk.names[rng.choice(files_below(world.disk, directory))]
    elif files_below(world.disk, directory):
        spoil(world.disk, rng, directory)
    world.start()
    log = world.logs.logs.get(PARTITION)
    if log is not None and (how == "stop" or log.log_end_offset <= end):
        assert log.log_end_offset <= end
        read_all(log)
    world.run_ms(150_000)
    world.stop()
    world.start()
