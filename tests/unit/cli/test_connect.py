"""Lines for people."""

from __future__ import annotations

import pytest

from barnabas.cli.connection.connect import event_line
from barnabas.metadata.views.cluster_events import ClusterEvent


@pytest.mark.parametrize(
    ("at_ms", "date"),
    [(1_700_000_000_250, "2023-11-14 22:13:20.250"), (2**62, f"{2**62} ms"), (-(2**62), "ms")],
)
def test_an_event_has_its_date_or_the_raw_value(at_ms: int, date: str) -> None:
    assert date in event_line(ClusterEvent(7, at_ms, "topic", "t", "is created", ""))
