"""Deadlines: never early, late by no more than a bucket, forgotten without a trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.deadlines import Deadlines
from tests.effort import examples
from tests.unit.broker.fakes import Slow, advance, process


class Item:
    def __init__(self, log: list[tuple[int, float]], number: int, now: object) -> None:
        self.bucket = -1
        self.log = log
        self.number = number
        self.now = now

    def on_deadline(self) -> None:
        self.log.append((self.number, self.now()))  # type: ignore[operator]


@settings(max_examples=examples(50))
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


class Turns:
    """Which items rang, by turn of the loop."""

    def __init__(self, count: int) -> None:
        self.ports = process()
        self.deadlines = Deadlines(Slow(self.ports))
        self.rang: list[list[int]] = []
        self.items = [Ringing(self, number) for number in range(count)]
        for item in self.items:
            self.deadlines.add(item, self.ports.clock.now_ms() + 5)

    def run(self, ms: float = 500) -> None:
        call_soon = self.ports.wakeups.call_soon
        self.ports.wakeups.call_soon = self._counted(call_soon)  # type: ignore[method-assign]
        self.rang.append([])
        advance(self.ports, ms)

    def _counted(self, call_soon: Callable[[Callable[[], None]], None]) -> Any:
        def counted(callback: Callable[[], None]) -> None:
            def turn() -> None:
                self.rang.append([])
                callback()

            call_soon(turn)

        return counted


class Ringing:
    def __init__(self, turns: Turns, number: int) -> None:
        self.bucket = -1
        self.turns = turns
        self.number = number
        self.then: Callable[[], None] = lambda: None

    def on_deadline(self) -> None:
        self.turns.rang[-1].append(self.number)
        self.then()


def test_many_that_are_due_at_once_ring_in_several_turns_and_in_order() -> None:
    turns = Turns(20)
    turns.run()
    assert [number for turn in turns.rang for number in turn] == list(range(20))
    assert max(map(len, turns.rang)) <= 6
    assert len(turns.deadlines) == 0


def test_a_timer_that_is_removed_while_due_does_not_ring() -> None:
    turns = Turns(20)

    def remove_the_last() -> None:
        for item in turns.items[15:]:
            turns.deadlines.remove(item)

    turns.items[0].then = remove_the_last
    turns.run()
    assert [number for turn in turns.rang for number in turn] == list(range(15))
    assert {item.bucket for item in turns.items} == {-1}


def test_a_timer_that_is_set_again_while_due_rings_once_and_later() -> None:
    turns = Turns(20)
    last = turns.items[-1]

    def again() -> None:
        turns.deadlines.remove(last)
        turns.deadlines.add(last, turns.ports.clock.now_ms() + 300)

    turns.items[0].then = again
    turns.run(200)
    assert last.number not in [number for turn in turns.rang for number in turn]
    assert len(turns.deadlines) == 1
    turns.run(300)
    assert [number for turn in turns.rang for number in turn].count(last.number) == 1


def test_one_that_fails_does_not_keep_the_others_from_ringing() -> None:
    turns = Turns(20)

    def fail() -> None:
        raise RuntimeError("a fault")

    turns.items[3].then = fail
    with contextlib.suppress(RuntimeError):
        turns.run()
    turns.run()
    assert sorted(number for turn in turns.rang for number in turn) == list(range(20))
