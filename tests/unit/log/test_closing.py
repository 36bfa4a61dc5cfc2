"""A clean end while a sync is under way: what it took on is not forgotten."""

from __future__ import annotations

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
