"""A log may begin inside a batch: DeleteRecords knows offsets, logs know batches."""

from __future__ import annotations

import random

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import LOG
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.builder import build_batch
from barnabas.sim.world.disk import SimDisk
from barnabas.types import TopicPartition
from tests.model.log.log_model import LogModel


def test_a_follower_takes_the_batch_inside_which_its_leaders_log_begins() -> None:
    leader, follower = LogModel(1), LogModel(2)
    leader.append(5, 60)
    leader.append(2, 60)
    log = follower.log
    for beginning in (2, 6):
        assert leader.log.advance_log_start(beginning)
        log.truncate_fully_and_start_at(beginning)
        sent = leader.log.read(beginning, 10_000)
        assert sent is not None
        log.append_as_follower(sent.records)
        assert log.advance_log_start(beginning)
        assert log.log_start_offset == beginning < log.log_end_offset
        again = log.read(beginning, 10_000)
        assert again is not None and bytes(again.records) == bytes(sent.records)


def opened(log: PartitionLog, *, clean: bool, recovery_point: int = 0) -> PartitionLog:
    return open_log(
        FileCache(log.disk),
        log.directory,
        log.partition,
        log.config,
        LogCheckpoints(clean=clean, recovery_point=recovery_point),
    ).log


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_that_has_lost_all_segments_knows_no_producers_of_before(clean: bool) -> None:
    """A process was killed while it dropped everything: what it knew of producers is over."""
    disk = SimDisk(random.Random(1)).open_for_process()
    disk.make_dirs("/data")
    name = TopicPartition("t", 0)
    log = open_log(FileCache(disk), "/data/t-0", name, LogConfig(), LogCheckpoints(clean=True)).log

    def fill(producer: int) -> None:
        for sequence in range(8):
            batch = build_batch(
                [(b"k", b"v")], timestamp_ms=1, producer_id=producer, producer_epoch=0,
                base_sequence=sequence,
            )  # fmt: skip
            log.append_as_leader(batch, leader_epoch=0, wall_ms=1)

    fill(7)
    log.close()
    for file in [file for file in disk.list_dir("/data/t-0") if file.endswith(LOG)]:
        disk.remove(f"/data/t-0/{file}")
    log = opened(log, clean=clean)
    assert log.log_end_offset == 0 and not log.producers.entries
    fill(9)
    log.flush()
    log.close(clean=False)
    log = opened(log, clean=False, recovery_point=8)
    assert list(log.producers.entries) == [9]


def test_epochs_before_the_first_cached_one_are_read_from_the_batches() -> None:
    """The cache was written when the log's start had moved, and no checkpoint of that start was. A follower
    whose log goes another way there would learn that its own epoch ends where the known ones begin
    (seed 1566)."""
    model = LogModel(1)
    model.append(2, 60)
    model.new_epoch()
    model.append(2, 60)
    model.append(3, 60)
    model.log.advance_log_start(4)
    model.log.flush()
    assert model.log.epochs.entries() == [(model.epoch, 4)]
    model.log_start = 0
    model.device.process_died()
    model.reopen()
    assert model.log.log_start_offset == 0
    assert model.log.epochs.entries() == [(0, 0), (model.epoch, 2)]


def test_epochs_are_read_again_where_the_first_was_lost_with_the_power() -> None:
    """The log's start had moved behind what is left of it: without any epoch a follower would trust nothing
    (seed 13860)."""
    model = LogModel(1)
    model.append(2, 60)
    model.log.flush()
    model._synced()
    model.append(2, 60)
    model.log.advance_log_start(3)
    model.log.epochs.write()
    model.log_start = 0
    active = model.log.active.path
    model.device.process_died()
    model.device.open_for_process().open(active).truncate(len(model.entries[0].data))
    model.entries = model.entries[:1]
    model.reopen()
    assert model.log.log_end_offset == 2
    assert model.log.epochs.entries() == [(0, 0)]
