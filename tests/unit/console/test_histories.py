"""Figures over time: rates of counters, and what rises and falls."""

from __future__ import annotations

from barnabas.console.cluster_views.histories import SAMPLES_MAX, STALE_S, Histories


class Seconds:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_rate_is_what_a_counter_grew_by_in_a_second() -> None:
    clock = Seconds()
    histories = Histories(clock)
    for at, value in ((0, 100), (2, 300), (4, 300)):
        clock.now_s = at
        histories.sample({"a": value})
    assert histories.rates("a") == [100.0, 0.0]
    assert histories.rates("unknown") == []


def test_a_counter_that_fell_begins_again() -> None:
    clock = Seconds()
    histories = Histories(clock)
    histories.sample({"a": 100})
    clock.now_s = 2
    histories.sample({"a": 10})
    assert histories.rates("a") == []


def test_a_gauge_may_fall() -> None:
    clock = Seconds()
    histories = Histories(clock)
    histories.gauge({"a": 100})
    clock.now_s = 2
    histories.gauge({"a": 10})
    assert histories.values("a") == [100, 10]


def test_a_series_has_its_newest_samples_only_and_begins_again_after_a_pause() -> None:
    clock = Seconds()
    histories = Histories(clock)
    for second in range(SAMPLES_MAX * 2):
        clock.now_s = second
        histories.sample({"a": second})
    assert len(histories.values("a")) == SAMPLES_MAX
    clock.now_s += STALE_S + 1
    histories.sample({"a": 1_000})
    assert histories.values("a") == [1_000]
