"""Every operation meets a disk call that fails: the 1st, the 2nd, ... until none of its calls is hit.

Whatever fails, once or for good: what the next start finds is the log before the operation, the log
after it, or a shorter one, never less than the recovery point, never anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.model.log.log_model import Entry, LogModel

CALLS_MAX = 200

Operation = Callable[[LogModel], None]


def prepared(seed: int) -> LogModel:
    """Some segments, two epochs, a transaction, synced in part, and a cut."""
    model = LogModel(seed)
    for _ in range(6):
        model.append(2, 60)
    model.append_idempotent(1, 2, False)
    model.append_idempotent(3, 1, True)
    model.sync()
    model.new_epoch()
    model.append(3, 60)
    model.truncate(model.end - 2)
    model.new_epoch()
    model.end_transaction(3, False)
    model.append(2, 60)
    return model


def append_into_a_new_segment(model: LogModel) -> None:
    for _ in range(6):
        model.append(2, 120)


def abort_a_transaction(model: LogModel) -> None:
    model.append_idempotent(4, 1, True)
    model.end_transaction(4, False)


def retain(model: LogModel) -> None:
    model.advance_start(12)
    model.retain()


def open_again(model: LogModel) -> None:
    model.device.process_died()
    model.reopen()


def read_everything(model: LogModel) -> None:
    model.files.close_all()
    for segment in model.log.segments:
        segment.index.release()
    model.content()
    model.log.read_transactions(0, model.end)


def search(model: LogModel) -> None:
    model.files.close_all()
    model.log.search_job(model.now - 1)()
    model.log.search_job(None)()


def delete_records(model: LogModel) -> None:
    model.advance_start(model.end - 2)
    model.log.high_watermark = model.end
    model.log.delete_old_segments(model.now)


def snapshot_producers(model: LogModel) -> None:
    model.append_idempotent(5, 1, False)
    model.log.write_producer_snapshot(model.end)


def preallocate_and_roll(model: LogModel) -> None:
    model.log.reconfigure(replace(model.config, preallocate=True))
    model.roll()
    model.append(1, 20)
    model.roll()


OPERATIONS: dict[str, Operation] = {
    "read": read_everything,
    "search_by_timestamp": search,
    "delete_records": delete_records,
    "snapshot_producers": snapshot_producers,
    "preallocate_and_roll": preallocate_and_roll,
    "append": lambda model: model.append(2, 50),
    "append_into_a_new_segment": append_into_a_new_segment,
    "abort_a_transaction": abort_a_transaction,
    "append_as_follower": lambda model: model.append_as_follower(3, 2),
    "roll": LogModel.roll,
    "sync": LogModel.sync,
    "truncate": lambda model: model.truncate(model.end - 3),
    "truncate_below_the_recovery_point": lambda model: model.truncate(5),
    "start_over": lambda model: model.start_over(100),
    "retain": retain,
    "close": lambda model: model.log.close(),
    "open": open_again,
}


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power_loss"])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for_good"])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_log_survives_any_failing_call(name: str, for_good: bool, power_loss: bool) -> None:
    operation = OPERATIONS[name]
    for seed in (1, 2):
        for nth in range(1, CALLS_MAX):
            model, after = prepared(seed), prepared(seed)
            operation(after)
            states = [after.entries, model.entries, *model.earlier]
            recovery_point = model.recovery_point
            model.device.fail_call(nth, for_good=for_good)
            try:
                operation(model)
            except OSError:
                pass
            hit = model.device.fault_was_hit
            model.device.fail_call(0)
            recovery_point = min(recovery_point, model.recovery_point, after.recovery_point)
            model.device.process_died(power_loss=power_loss)
            check_after_crash(model, states, recovery_point)
            if not hit:
                break
        else:
            raise AssertionError("the operation never came through")


def check_after_crash(model: LogModel, states: list[list[Entry]], recovery_point: int) -> None:
    model.recovery_point = recovery_point
    model.log_start = 0
    model.reopen()
    model.log_start = model.log.log_start_offset
    found = model.content()
    for state in states:
        kept = [entry for entry in state if entry.header.next_offset > model.log_start]
        if found == [entry.data for entry in kept[: len(found)]]:
            break
    else:
        raise AssertionError(f"the log has {found}")
    model.end = model.log.log_end_offset
    model.entries = [entry for entry in state if entry.header.next_offset <= model.end]
    assert model.end >= recovery_point or not states[0]
    model.earlier = []
    model.sequences.clear()
    model.check()
    model.append(1, 10)
    model.kill()
