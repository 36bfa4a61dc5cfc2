"""A log that moves between two directories, while all else happens to it, against what was written to it."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.model.log.moving_log import MovingCompactedLog, MovingLog, MovingPlainLog

EXAMPLES = examples(int(os.environ.get("BARNABAS_MODEL_EXAMPLES", "2000")) // 20)

APPEND = st.tuples(st.just("append"), st.sampled_from([1, 3, 12]), st.sampled_from([5, 90, 200]))
WAIT = st.tuples(st.just("wait"), st.sampled_from([1, 30, 1000, 4000]))
STEPS = st.one_of(
    APPEND,
    APPEND,
    APPEND,
    WAIT,
    WAIT,
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("truncate"), st.integers(0, 9)),
    st.tuples(st.just("start_over"), st.sampled_from([0, 7])),
    st.tuples(st.just("advance"), st.integers(0, 20)),
    st.tuples(st.just("begin_move")),
    st.tuples(st.just("begin_move")),
    st.tuples(st.just("copy_some"), st.sampled_from([1, 3, 50])),
    st.tuples(st.just("end_move"), st.sampled_from([-1, 0, 50])),
    st.tuples(st.just("end_move"), st.sampled_from([-1, 0, 50])),
    st.tuples(st.just("drop_copy")),
    st.tuples(st.just("restart"), st.sampled_from(["stop", "kill", "power"])),
    st.tuples(st.just("restart"), st.sampled_from(["stop", "kill", "power"])),
)
HISTORIES = st.lists(STEPS, min_size=5, max_size=40)
THOROUGH = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def play(model: MovingLog, steps: list[tuple[Any, ...]]) -> None:
    for name, *arguments in steps:
        getattr(model, name)(*arguments)
    model.restart("kill")
    model.restart("stop")


@THOROUGH
@given(seed=st.integers(0, 1 << 16), steps=HISTORIES)
def test_a_log_that_moves_keeps_its_batches(seed: int, steps: list[tuple[Any, ...]]) -> None:
    play(MovingPlainLog(seed), steps)


@THOROUGH
@given(seed=st.integers(0, 1 << 16), steps=HISTORIES)
def test_a_compacted_log_that_moves_keeps_its_values(
    seed: int, steps: list[tuple[Any, ...]]
) -> None:
    play(MovingCompactedLog(seed), steps)
