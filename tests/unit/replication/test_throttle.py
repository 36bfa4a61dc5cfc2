"""A throttle keeps its rate over any long stretch, and knows whom it is for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.replication.throttle import UNLIMITED, Quota, Throttled


def test_unlimited_and_nothing_at_all() -> None:
    free, shut = Quota(), Quota(0)
    free.record(10**12, 0)
    assert not free.is_exceeded(0) and free.wait_ms(0) == 0
    assert shut.is_exceeded(0) and shut.wait_ms(10**6) > 0


def test_a_throttle_waits_after_a_burst_as_long_as_the_excess_takes() -> None:
    quota = Quota(1000)
    assert not quota.is_exceeded(0)
    quota.record(3000, 0)
    assert quota.wait_ms(0) == pytest.approx(2000)
    assert quota.is_exceeded(1999)
    assert not quota.is_exceeded(2001)


def test_bytes_promised_in_the_same_answer_count() -> None:
    quota = Quota(1000)
    assert not quota.is_exceeded(0, promised=999)
    assert quota.is_exceeded(0, promised=1000)


@pytest.mark.slow
@given(
    rate=st.integers(1, 10**8),
    answers=st.lists(st.integers(1, 10**7), min_size=1, max_size=50),
    turn_ms=st.floats(0.1, 500),
)
def test_over_a_long_stretch_the_rate_holds(rate: int, answers: list[int], turn_ms: float) -> None:
    quota, now_ms, copied = Quota(rate), 0.0, 0
    for size in answers:
        now_ms += quota.wait_ms(now_ms)
        assert not quota.is_exceeded(now_ms + 0.01)
        quota.record(size, now_ms)
        copied += size
        now_ms += turn_ms
    allowed = rate * (now_ms / 1000 + 1) + max(answers)
    assert copied <= allowed * 1.001


def test_entries_are_of_one_broker() -> None:
    text = "0:1,1:2, 2:1"
    assert [index in Throttled(text, 1) for index in range(3)] == [True, False, True]
    assert 77 in Throttled("*", 5)
    assert 4 in Throttled("²:1,3:²,4:01", 1), "as Kafka reads numbers, and no others"
    assert 0 not in Throttled("", 1)
    assert 5 in Throttled(f"{'9' * 5000}:1,5:1,6:{'1' * 5000}", 1), "int() raises for such numbers"
    assert Quota().rate == UNLIMITED
