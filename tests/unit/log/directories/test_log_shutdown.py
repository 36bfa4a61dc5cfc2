"""A clean end while a sync is under way: what it took on is not forgotten."""

from __future__ import annotations

import pytest

from tests.model.log.log_model import LogModel


def test_a_log_closed_while_a_sync_is_under_way_has_its_leader_epochs() -> None:
    model = LogModel(1)
    model.append(2, 60)
    model.new_epoch()
    model.append(1, 60)
    model.log.sync_job()  # taken on, and never done: the process ends first
    entries = model.log.epochs.entries()
    model.log.close()
    model.device.process_died()
    model.reopen(clean=True)
    assert model.log.epochs.entries() == entries != []


def test_a_sync_that_is_done_after_a_newer_one_leaves_the_newer_epochs() -> None:
    """Two queues sync a log, and so does its end (seed 600461: what was committed was cut)."""
    model = LogModel(1)
    model.append(2, 60)
    older, _ = model.log.sync_job()
    model.new_epoch()
    model.append(1, 60)
    newer, _ = model.log.sync_job()
    newer()
    older()
    entries = model.log.epochs.entries()
    model.log.close()
    older()
    model.device.process_died()
    model.reopen(clean=True)
    assert model.log.epochs.entries() == entries
    assert len(entries) == 2


def test_a_sync_that_ends_before_an_older_one_has_the_epochs_that_this_took_on() -> None:
    model = LogModel(1)
    model.append(2, 60)
    model.log.flush()
    model.new_epoch()
    model.append(1, 60)
    model.log.sync_job()
    job, on_synced = model.log.sync_job()
    job()
    on_synced()
    model.recovery_point = model.log.recovery_point
    model.device.process_died()
    model.reopen()
    assert [epoch for epoch, _ in model.log.epochs.entries()] == [0, model.epoch]


@pytest.mark.parametrize("seed", range(8))
def test_a_flushed_file_stays_though_another_sync_took_on_its_name(seed: int) -> None:
    model = LogModel(seed)
    model.append(2, 60)
    model.log.flush()
    model.roll()
    model.append(1, 60)
    model.log.sync_job()  # takes the new segment's name on, and waits in its queue
    job, on_synced = model.log.sync_log_job()
    job()
    on_synced()
    model.device.process_died(power_loss=True)
    model.reopen()
    assert model.log.log_end_offset == model.end


def test_a_roll_between_two_syncs_is_not_vouched_for_by_the_first() -> None:
    model = LogModel(1)
    model.append(2, 60)
    job, on_synced = model.log.sync_job()
    model.roll()
    end = model.end
    model.append(1, 60)
    model.log.sync_job()
    job()
    on_synced()
    assert model.log.recovery_point == end - 1
