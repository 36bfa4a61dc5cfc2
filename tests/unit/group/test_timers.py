"""Deadlines that move, against a plain table of them."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.group.timers import Timers
from tests.effort import examples

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 3), st.integers(0, 20)),
        st.tuples(st.just("cancel"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.integers(0, 10)),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=examples(200))
def test_every_deadline_is_taken_once_and_in_order(steps: list[tuple[str, int, int]]) -> None:
    timers: Timers[int] = Timers()
    plain: dict[int, int] = {}
    now = 0
    for what, key, number in steps:
        if what == "schedule":
            timers.schedule(key, now + number, "why")
            plain[key] = now + number
        elif what == "cancel":
            timers.cancel(key)
            plain.pop(key, None)
        else:
            now += number
            taken = []
            while (due := timers.take_due(now)) is not None:
                assert due[1] == "why"
                taken.append(plain.pop(due[0]))
            assert taken == sorted(taken)
            assert all(deadline > now for deadline in plain.values())
        assert len(timers) == len(plain)
        assert timers.deadline_ms() <= min(plain.values(), default=math.inf)
        for known, deadline in plain.items():
            assert timers.pending(known) == deadline


def test_a_deadline_that_was_moved_takes_its_new_place() -> None:
    timers: Timers[str] = Timers()
    timers.schedule("a", 8)
    timers.schedule("b", 16)
    timers.schedule("a", 19)
    assert timers.take_due(20) == ("b", None)
    assert timers.take_due(20) == ("a", None)


def test_moving_a_deadline_later_costs_no_entry() -> None:
    timers: Timers[str] = Timers()
    for at in range(10_000):
        timers.schedule("a", 1000 + at)
    assert len(timers._heap) == 1
    assert timers.take_due(1000) is None
    assert timers.take_due(10_999) == ("a", None)
