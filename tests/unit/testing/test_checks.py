"""The ledger of a producer has each acknowledged record once, and says what it cannot know."""

from __future__ import annotations

import pytest

from barnabas.testing.checks import RecordLedger
from barnabas.types import TopicPartition


def test_a_record_is_known_by_its_partition_and_offset() -> None:
    ledger = RecordLedger()
    ledger.add("orders", 0, 7, b"one")
    ledger.add("orders", 0, 7, b"one")
    ledger.add("orders", 1, 7, b"two")
    assert len(ledger) == 2 and ledger.records[TopicPartition("orders", 0)] == {7: b"one"}
    with pytest.raises(AssertionError, match="two records at offset 7"):
        ledger.add("orders", 0, 7, b"another")


@pytest.mark.parametrize("offset", [None, -1001])
def test_a_producer_without_acknowledgements_is_refused(offset: int | None) -> None:
    ledger = RecordLedger()
    with pytest.raises(ValueError, match="acks=0 acknowledges no record"):
        ledger.add("orders", 0, offset, b"one")
    assert len(ledger) == 0
