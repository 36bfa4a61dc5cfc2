"""A session ends at the very instant that its deadline names, however that was rounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.controller.brokers.broker_sessions import BrokerSessions

INSTANTS = st.floats(min_value=0.0, max_value=1e12, allow_nan=False)


@pytest.mark.slow
@given(INSTANTS, st.sampled_from([0.1, 3.3, 9_000.0, 9_000.7]))
def test_a_wakeup_at_the_deadline_finds_a_session_that_ended(
    now_ms: float, timeout_ms: float
) -> None:
    """Otherwise it would wake again at once, and again (seed 8)."""
    sessions = BrokerSessions(timeout_ms)
    sessions.start(7, 1, now_ms)
    deadline = sessions.deadline_ms()
    assert deadline is not None
    assert sessions.expired(deadline) == [7]
