"""A log may begin inside a batch: DeleteRecords knows offsets, logs know batches."""

from __future__ import annotations

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
