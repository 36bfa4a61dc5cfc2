"""A round of compaction on a log whose index of aborted transactions rotted while no process had it."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.log.compaction import cleaning_pass
from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.log.segments.transaction_index import ENTRY
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.record.decode import records_of
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("t", 0)


def opened(device: SimDisk, clean: bool) -> PartitionLog:
    disk = device.open_for_process()
    disk.make_dirs("/data")
    config = LogConfig(cleanup_policy=("compact",), delete_retention_ms=0)
    return open_log(
        FileCache(disk), "/data/t-0", PARTITION, config, LogCheckpoints(clean=clean)
    ).log


def transact(log: PartitionLog, values: list[bytes], sequence: int, commit: bool) -> None:
    for number, value in enumerate(values):
        batch = build_batch(
            [(b"key", value)],
            timestamp_ms=NOW_MS,
            producer_id=1,
            producer_epoch=0,
            base_sequence=sequence + number,
            transactional=True,
        )
        log.append_as_leader(batch, leader_epoch=0, wall_ms=NOW_MS)
    marker = end_transaction_marker(
        commit=commit, timestamp_ms=NOW_MS, producer_id=1, producer_epoch=0, coordinator_epoch=0
    )
    log.append_as_leader(marker, leader_epoch=0, wall_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def written() -> SimDisk:
    device = SimDisk(Random(1))
    log = opened(device, clean=False)
    transact(log, [b"committed"], 0, True)
    transact(log, [b"void", b"void, too"], 1, False)
    log.roll()
    log.close()
    device.process_died(power_loss=False)
    return device


def compacted(device: SimDisk) -> list[bytes]:
    """The values that are left after a round."""
    log = opened(device, clean=True)
    log.move_high_watermark(log.log_end_offset)
    log.durability.compactable_to = log.log_end_offset
    plan = cleaning_pass.make_plan(log, 0, NOW_MS)
    keys, trail = cleaning_pass.build_map(plan, 1000), cleaning_pass.trail_of(plan)
    for group in cleaning_pass.groups_of(plan, keys.end):
        assert cleaning_pass.swap(log, plan, cleaning_pass.clean_group(plan, group, keys, trail))
    found = log.read(0, 1 << 20)
    assert found is not None
    return [
        record.value or b""
        for batch in iterate(found.records)
        if not batch.header.is_control
        for record in records_of(batch)
    ]


def test_committed_records_stay_and_void_ones_go_without_rot() -> None:
    assert compacted(written()) == [b"committed"]


@pytest.mark.parametrize("byte", range(ENTRY.size))
def test_no_bit_of_an_entry_makes_compaction_drop_a_committed_record(byte: int) -> None:
    for bit in range(8):
        device = written()
        [path] = [path for path in sorted(device.names) if path.endswith(".txnindex")]
        device.rot(path, byte, bit)
        assert compacted(device) == [b"committed"], bit
