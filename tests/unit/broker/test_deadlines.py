"""Deadlines: never early, late by no more than a bucket, forgotten without a trace."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.deadlines import Deadlines
from tests.effort import examples
from tests.unit.broker.fakes import advance, process


class Item:
    def __init__(self, log: list[tuple[int, float]], number: int, now: object) -> None:
        self.bucket = -1
        self.log = log
        self.number = number
        self.now = now

    def on_deadline(self) -> None:
        self.log.append((self.number, self.now()))  # type: ignore[operator]


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.booleans()), max_size=30))
def test_each_comes_once_and_in_time(plan: list[tuple[int, bool]]) -> None:
    ports = process()
    deadlines = Deadlines(ports, granularity_ms=10.0)
    log: list[tuple[int, float]] = []
    items = [Item(log, number, ports.clock.now_ms) for number in range(len(plan))]
    for item, (delay, _) in zip(items, plan, strict=True):
        deadlines.add(item, ports.clock.now_ms() + delay)
    for item, (_, dropped) in zip(items, plan, strict=True):
        if dropped:
            deadlines.remove(item)
    advance(ports, 600)
    came = dict(log)
    assert len(log) == len(came)
    for number, (delay, dropped) in enumerate(plan):
        assert (number in came) is not dropped
        if not dropped:
            assert delay <= came[number] <= delay + 20
    assert len(deadlines) == 0
