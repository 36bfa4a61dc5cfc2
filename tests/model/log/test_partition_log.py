"""The log against a list, through appends, cuts, syncs, kills and power losses in any order."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.model.log.log_model import LogModel

EXAMPLES = examples(int(os.environ.get("BARNABAS_MODEL_EXAMPLES", "2000")))

small = st.integers(0, 40)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4), st.sampled_from([1, 50, 120])),
    st.tuples(st.just("append"), st.integers(1, 4), st.sampled_from([1, 50])),
    st.tuples(st.just("idempotent"), st.integers(1, 2), st.integers(1, 3)),
    st.tuples(st.just("transactional"), st.integers(3, 4), st.integers(1, 3)),
    st.tuples(st.just("end_transaction"), st.integers(3, 4), st.booleans()),
    st.tuples(st.just("follow"), st.sampled_from([0, 0, 0, 7]), st.integers(1, 3)),
    st.tuples(
        st.just("follow_run"),
        st.sampled_from([0, 0, 7]),
        st.integers(1, 3),
        st.integers(1, 9),
        st.sampled_from(["", "", "cut", "corrupt", "back"]),
    ),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("truncate"), st.integers(0, 12)),
    st.tuples(st.just("start_over"), st.integers(0, 30)),
    st.tuples(st.just("sync")),
    st.tuples(st.just("sync_and_append")),
    st.tuples(st.just("sync_and_cut"), st.integers(0, 12)),
    st.tuples(st.just("roll")),
    st.tuples(st.just("advance"), st.integers(0, 12)),
    st.tuples(st.just("retain")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("restart"), st.booleans()),
    st.tuples(st.just("lose_power")),
    st.tuples(st.just("cut_and_lose_power"), st.integers(1, 5), st.booleans()),
    st.tuples(st.just("check")),
)

OPEN_BEYOND_RETENTION: list[tuple[Any, ...]] = [
    ("transactional", 3, 1),
    ("sync",),
    ("advance", 1),
    ("retain",),
    ("transactional", 3, 1),
]
"""Retention removes the first batch of a transaction that continues."""

FIRST_INDEX_ENTRY_BEHIND_THE_RECOVERY_POINT: list[tuple[Any, ...]] = [
    ("epoch",),
    ("append", 1, 120),
    ("append", 1, 120),
    ("idempotent", 1, 1),
    ("follow_run", 0, 3, 9, "cut"),
    ("sync",),
    ("follow", 0, 1),
]
"""The largest timestamp of the last segment is before it, and no entry says so."""

TIME_INDEX_THAT_WAS_NEVER_SYNCED: list[tuple[Any, ...]] = [
    ("append", 1, 1),
    ("sync_and_append",),
    ("append", 1, 120),
    ("kill",),
    ("append", 2, 50),
    ("lose_power",),
]
"""A recovery wrote an entry, and the power loss leaves garbage in its place: an offset below 0."""

ROOM_GIVEN_BACK_BELOW_THE_RECOVERY_POINT: list[tuple[Any, ...]] = [
    ("append", 1, 1),
    ("truncate", 1),
    ("append", 1, 1),
    ("append", 1, 1),
    ("append", 1, 1),
    ("sync",),
    ("append", 1, 1),
    ("lose_power",),
]
"""A power loss undoes that a roll gave back what was preallocated of a segment that had been synced."""

ENDED_BELOW_THE_LOG_START: list[tuple[Any, ...]] = [
    ("transactional", 3, 1),
    ("roll",),
    ("sync",),
    ("end_transaction", 3, False),
    ("advance", 2),
    ("transactional", 3, 1),
]
"""The snapshot knows an open transaction, and its marker is below the log's start: after a crash it stayed
open for ever."""

CUT_BELOW_WHAT_RETENTION_TOOK: list[tuple[Any, ...]] = [
    ("transactional", 3, 1),
    ("advance", 1),
    ("retain",),
    ("sync_and_cut", 1),
    ("follow", 7, 1),
]
"""The cut takes the open transaction with it, although retention had taken its batch before."""


def play(model: LogModel, step: tuple[Any, ...]) -> None:
    match step:
        case ("append", records, size):
            model.append(records, size)
        case ("idempotent", producer, records):
            model.append_idempotent(producer, records, False)
        case ("transactional", producer, records):
            model.append_idempotent(producer, records, True)
        case ("end_transaction", producer, commit):
            model.end_transaction(producer, commit)
        case ("follow", gap, records):
            model.append_as_follower(gap, records)
        case ("follow_run", gap, records, batches, tail):
            model.append_as_follower(gap, records, batches, tail)
        case ("truncate", back):
            model.truncate(max(model.end - back, 0))
        case ("start_over", offset):
            model.start_over(offset)
        case ("sync_and_append",):
            model.sync(lambda: model.append(1, 20))
        case ("sync_and_cut", back):
            model.sync(lambda: model.truncate(max(model.end - back, 0)))
        case ("advance", ahead):
            model.advance_start(model.log_start + ahead)
        case ("restart", power_loss):
            model.restart(power_loss)
        case ("epoch",):
            model.new_epoch()
        case ("cut_and_lose_power", back, synced):
            model.sync()
            model.truncate(max(model.end - back, 0))
            model.append(2, 50)
            if synced:
                model.sync()
            model.lose_power()
        case (name,):
            getattr(model, name)()
        case _:
            raise AssertionError(step)


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(seed=st.integers(0, 1 << 16), steps=st.lists(STEPS, min_size=5, max_size=30))
@example(seed=0, steps=OPEN_BEYOND_RETENTION)
@example(seed=0, steps=ENDED_BELOW_THE_LOG_START)
@example(seed=0, steps=CUT_BELOW_WHAT_RETENTION_TOOK)
@example(seed=0, steps=[*CUT_BELOW_WHAT_RETENTION_TOOK[:3], ("start_over", 0), ("append", 1, 1)])
@example(seed=0, steps=[("append", 1, 1), ("sync",), ("roll",), ("kill",), ("restart", True)])
@example(seed=19303, steps=ROOM_GIVEN_BACK_BELOW_THE_RECOVERY_POINT)
@example(seed=970, steps=TIME_INDEX_THAT_WAS_NEVER_SYNCED)
@example(seed=40787, steps=FIRST_INDEX_ENTRY_BEHIND_THE_RECOVERY_POINT)
def test_the_log_is_the_list(seed: int, steps: list[tuple[Any, ...]]) -> None:
    model = LogModel(seed)
    for step in steps:
        play(model, step)
    model.check()
    model.kill()


def test_a_segment_completed_during_a_sync_is_synced_by_the_next_one() -> None:
    model = LogModel(0)
    for step in [
        ("sync_and_append",),
        ("sync_and_cut", 0),
        ("follow_run", 0, 1, 8, ""),
        ("sync_and_append",),
        ("restart", True),
    ]:
        play(model, step)
