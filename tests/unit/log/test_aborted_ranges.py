"""An index of aborted transactions that rotted: what it says is held against the markers, and mended."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import SNAPSHOT, file_name
from barnabas.log.partition import aborted_proof
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.log.segments.transaction_index import ENTRY
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition

NOW_MS = 1_700_000_000_000
WANTED = {(1, 0), (2, 1), (1, 6)}


def make(segment_bytes: int = 1 << 20) -> tuple[SimDisk, PartitionLog]:
    device = SimDisk(Random(1))
    disk = device.open_for_process()
    disk.make_dirs("/data")
    log = open_log(
        FileCache(disk),
        "/data/t-0",
        TopicPartition("t", 0),
        LogConfig(segment_bytes=segment_bytes),
        LogCheckpoints(clean=False),
    ).log
    for producer, commit in ((1, False), (2, False), (3, True), (1, False)):
        begin(log, producer)
        if producer == 1 and log.log_end_offset == 1:
            begin(log, 2)
            end(log, 1, commit)
            end(log, 2, commit)
        elif producer != 2:
            end(log, producer, commit)
    log.move_high_watermark(log.log_end_offset)
    return device, log


def begin(log: PartitionLog, producer: int) -> None:
    if producer in log.producers.open_transactions or (producer == 2 and log.log_end_offset > 2):
        return
    entry = log.producers.entries.get(producer)
    batch = build_batch(
        [(b"k", b"v" * 50)],
        timestamp_ms=NOW_MS,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0 if entry is None else entry.last_sequence + 1,
        transactional=True,
    )
    log.append_as_leader(batch, leader_epoch=0, wall_ms=NOW_MS)


def end(log: PartitionLog, producer: int, commit: bool) -> None:
    marker = end_transaction_marker(
        commit=commit,
        timestamp_ms=NOW_MS,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
    )
    log.append_as_leader(marker, leader_epoch=0, wall_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def index_of(log: PartitionLog) -> list[str]:
    paths = [segment.transaction_index_path for segment in log.segments]
    return [path for path in paths if log.disk.exists(path)]


@pytest.mark.parametrize("segment_bytes", [1 << 20, 300])
def test_each_byte_that_rots_is_seen(segment_bytes: int) -> None:
    _, log = make(segment_bytes)
    assert set(log.read_transactions(0, log.log_end_offset)) == WANTED
    assert (len(log.segments) > 1) == (segment_bytes == 300)
    for path in index_of(log):
        sound = log.disk.read_file(path)
        for at in range(len(sound)):
            rotten = bytearray(sound)
            rotten[at] ^= 1 << (at % 8)
            log.files.close(path)
            log.disk.write_atomic(path, bytes(rotten))
            assert set(log.read_transactions(0, log.log_end_offset)) == WANTED, at
            mended = log.disk.read_file(path)
            # A last stable offset that fell lets readers look further than they must: it may stay.
            assert mended == sound or at % ENTRY.size >= 26, at


def test_an_index_that_was_cut_within_an_entry_is_mended() -> None:
    _, log = make()
    [path] = index_of(log)
    sound = log.disk.read_file(path)
    log.files.close(path)
    log.disk.write_atomic(path, sound[:-5])
    assert set(log.read_transactions(0, log.log_end_offset)) == WANTED
    assert log.disk.read_file(path) == sound


def test_entries_appended_behind_a_repaired_index_count() -> None:
    _, log = make()
    [path] = index_of(log)
    log.files.close(path)
    log.disk.write_atomic(path, b"\xff" * ENTRY.size)
    assert set(log.read_transactions(0, log.log_end_offset)) == WANTED
    at = log.log_end_offset
    begin(log, 4)
    end(log, 4, False)
    assert set(log.read_transactions(0, log.log_end_offset)) == WANTED | {(4, at)}


def reopened(device: SimDisk, *, clean: bool = True, recovery_point: int = 0) -> PartitionLog:
    """The log as the next process opens it."""
    disk = device.open_for_process()
    disk.make_dirs("/data")
    log = open_log(
        FileCache(disk),
        "/data/t-0",
        TopicPartition("t", 0),
        LogConfig(),
        LogCheckpoints(clean=clean, recovery_point=recovery_point),
    ).log
    log.move_high_watermark(log.log_end_offset)
    return log


def test_a_process_proves_what_the_one_before_wrote() -> None:
    device, log = make()
    [path] = index_of(log)
    sound = log.disk.read_file(path)
    log.close()
    device.process_died(power_loss=False)
    device.rot(
        path, ENTRY.size + 17, 0
    )  # producer 2 seems to have begun with the batch of producer 1
    log = reopened(device)
    assert set(log.read_transactions(0, log.log_end_offset)) == WANTED
    assert log.disk.read_file(path) == sound


def test_entries_that_a_cut_took_by_mistake_come_back() -> None:
    """The first one seems to end behind the place of the cut: the cut drops those behind it, too."""
    device, log = make()
    [path] = index_of(log)
    log.close()
    device.process_died(power_loss=False)
    device.rot(path, 18, 0)
    log = reopened(device)
    assert log.truncate_to(log.log_end_offset - 1)
    assert set(log.read_transactions(0, log.log_end_offset)) == {(1, 0), (2, 1)}


def test_a_sound_index_is_walked_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    device, log = make()
    log.close()
    device.process_died(power_loss=False)
    log = reopened(device)
    walks: list[int] = []
    markers_of = aborted_proof._markers_of

    def counted(*arguments: Any, **named: Any) -> list[aborted_proof.AbortMarker]:
        walks.append(1)
        return markers_of(*arguments, **named)

    monkeypatch.setattr(aborted_proof, "_markers_of", counted)
    for _ in range(3):
        assert set(log.read_transactions(0, log.log_end_offset)) >= WANTED
        at = log.log_end_offset
        begin(log, 4)
        end(log, 4, False)
        assert set(log.read_transactions(at, log.log_end_offset)) == {(4, at)}
    assert len(walks) == 1


def test_an_empty_index_is_made_whole_from_the_batches() -> None:
    """What a mended segment has whose files were all lost (seeds 60794, 61342)."""
    device, log = make()
    [path] = index_of(log)
    sound = log.disk.read_file(path)
    log.close()
    log.disk.write_atomic(path, b"")
    device.process_died(power_loss=False)
    log = reopened(device)
    assert set(log.read_transactions(0, log.log_end_offset)) == WANTED
    assert log.disk.read_file(path) == sound


def test_an_index_is_proved_from_a_snapshot_within_a_segment() -> None:
    """A clean end leaves one; a crash takes the later ones. What was committed in the rest of that segment
    belongs to no transaction that was aborted in the next (seed 70108)."""
    device = SimDisk(Random(1))
    log = reopened(device, clean=False)
    begin(log, 1)
    log.close()
    device.process_died(power_loss=False)
    log = reopened(device, clean=True)
    recovery_point = log.log_end_offset
    end(log, 1, True)
    log.roll()
    begin(log, 1)
    end(log, 1, False)
    device.process_died(power_loss=False)
    log = reopened(device, clean=False, recovery_point=recovery_point)
    assert len(log.segments) == 2
    assert log.disk.exists(f"/data/t-0/{file_name(recovery_point, SNAPSHOT)}")
    assert not log.disk.exists(f"/data/t-0/{file_name(log.active.base_offset, SNAPSHOT)}")
    assert set(log.read_transactions(0, log.log_end_offset)) == {(1, 2)}
