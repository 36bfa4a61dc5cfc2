"""A bad sector anywhere in a log: it opens all the same, and nobody is served what was not written."""

from __future__ import annotations

import os
import random
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log.errors import CorruptLogError
from barnabas.log.partition_log import PartitionLog
from barnabas.record.batch import iterate
from barnabas.sim.disk import SimDisk
from tests.effort import examples
from tests.model.log.log_model import DIRECTORY
from tests.unit.log.test_rot import hundred, opened

EXAMPLES = examples(int(os.environ.get("BARNABAS_MODEL_EXAMPLES", "2000")) // 10)
SECTORS = [1, 4, 64, 512]
BATCHES = 100
"""In the log."""


def spoil(disk: SimDisk, rng: random.Random) -> None:
    """Zeros or garbage somewhere in one of its files."""
    files = [
        path
        for path in sorted(disk.names)
        if path.startswith(f"{DIRECTORY}/") and disk.file(path).data
    ]
    data = disk.file(rng.choice(files)).data
    at = rng.randrange(len(data))
    size = min(rng.choice(SECTORS), len(data) - at)
    data[at : at + size] = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)


def read_all(log: PartitionLog) -> None:
    """Each offset is told to be corrupt, or is in the batch that is read for it."""
    log.move_high_watermark(log.log_end_offset)
    for offset in range(log.log_end_offset):
        try:
            read = log.read(offset, 1)
        except CorruptLogError:
            continue
        assert read is not None
        batch = next(iter(iterate(read.records)))
        assert batch.header.base_offset <= offset < batch.header.next_offset


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    segment_bytes=st.sampled_from([1 << 20, 1500, 2500]),
    recovery_point=st.sampled_from([None, 0, 60, 95]),
    places=st.sampled_from([1, 1, 2]),
)
def test_garbage_anywhere_is_told_and_never_served(
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
