"""A leadership that wrote nothing leaves an epoch without records at the end of the log."""

from __future__ import annotations

from tests.model.log.log_model import LogModel


def test_a_cut_at_the_very_end_forgets_an_epoch_without_records() -> None:
    """The new leader does not know it and sends the follower to the end of the epoch before, which is where
    its log ends anyway: were it kept, they would continue like that for ever (seed 6)."""
    model = LogModel(1)
    model.append(5, 60)
    log = model.log
    end, epoch = log.log_end_offset, log.last_epoch
    log.epochs.assign(epoch + 1, end)
    assert log.last_epoch == epoch + 1
    log.truncate_to(end)
    assert log.log_end_offset == end
    assert log.last_epoch == epoch
    assert log.epoch_end_offset(epoch) == (epoch, end)


def test_an_epoch_without_records_is_known_after_a_kill() -> None:
    """A leader commits by it what older epochs wrote, and no batch tells of it (seeds 611060, 640647)."""
    model = LogModel(1)
    model.append(5, 60)
    model.log.epochs.assign(model.epoch + 3, model.log.log_end_offset)
    model.log.epochs.write()
    model.device.process_died()
    model.reopen()
    assert model.log.last_epoch == model.epoch + 3
    assert model.log.last_written_epoch == model.epoch


def test_an_epoch_that_began_behind_the_end_of_the_log_is_forgotten() -> None:
    model = LogModel(1)
    model.append(5, 60)
    model.log.epochs.assign(model.epoch + 3, model.log.log_end_offset + 1)
    model.log.epochs.write()
    model.device.process_died()
    model.reopen()
    assert model.log.last_epoch == model.epoch
