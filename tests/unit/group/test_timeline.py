"""Two states and the way back: against a model that keeps a copy per offset."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.group.offset_table import OffsetAndMetadata, OffsetTable
from barnabas.timeline import Journal, TimelineMap
from tests.effort import examples

KEYS = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("remove"), KEYS, st.just(0)),
        st.tuples(st.just("commit"), st.just(""), st.integers(1, 3)),
        st.tuples(st.just("revert"), st.just(""), st.integers(1, 3)),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=examples(200))
def test_committed_and_newest_are_what_copies_would_say(
    steps: list[tuple[str, str, int]],
) -> None:
    journal = Journal()
    table: TimelineMap[str, int] = TimelineMap(journal)
    states: list[dict[str, int]] = [{}]
    committed = 0
    for what, key, number in steps:
        end = len(states) - 1
        journal.offset = end
        if what == "put":
            table.put(key, number)
            states.append({**states[-1], key: number})
        elif what == "remove":
            table.remove(key)
            states.append({k: v for k, v in states[-1].items() if k != key})
        elif what == "commit":
            committed = min(end, committed + number)
            journal.commit_to(committed)
        else:
            to = max(committed, end - number)
            journal.revert_to(to)
            del states[to + 1 :]
        assert dict(table.items()) == states[-1]
        assert dict(table.committed_items()) == states[committed]
        assert {k: v for k in "abc" if (v := table.committed(k)) is not None} == states[committed]
    journal.commit_to(len(states))
    assert len(journal) == 0


def test_records_replayed_below_the_committed_offset_keep_no_undo_log() -> None:
    journal = Journal()
    table: TimelineMap[str, int] = TimelineMap(journal)
    journal.commit_to(10)
    for offset in range(10):
        journal.offset = offset
        table.put("a", offset)
    assert len(journal) == 0
    assert table.committed("a") == 9


def test_offsets_of_a_transaction_appear_when_it_is_committed() -> None:
    journal = Journal()
    offsets = OffsetTable(journal)
    place = ("t", 0)
    offsets.put("g", place, OffsetAndMetadata(1, record_offset=0))
    offsets.put_pending(7, "g", place, OffsetAndMetadata(5, record_offset=1))
    offsets.put_pending(8, "g", place, OffsetAndMetadata(6, record_offset=2))
    assert offsets.get("g", place) == OffsetAndMetadata(1, record_offset=0)
    assert offsets.is_pending("g", place)
    offsets.end_transaction(7, True)
    assert offsets.get("g", place) == OffsetAndMetadata(5, record_offset=1)
    offsets.end_transaction(8, False)
    assert offsets.get("g", place) == OffsetAndMetadata(5, record_offset=1)
    assert not offsets.is_pending("g", place)


def test_a_transaction_does_not_take_a_younger_offset_back() -> None:
    journal = Journal()
    offsets = OffsetTable(journal)
    offsets.put_pending(7, "g", ("t", 0), OffsetAndMetadata(5, record_offset=1))
    offsets.put("g", ("t", 0), OffsetAndMetadata(9, record_offset=2))
    offsets.end_transaction(7, True)
    assert offsets.get("g", ("t", 0)) == OffsetAndMetadata(9, record_offset=2)


def test_a_deleted_offset_is_deleted_from_transactions_too() -> None:
    offsets = OffsetTable(Journal())
    offsets.put_pending(7, "g", ("t", 0), OffsetAndMetadata(5, record_offset=1))
    offsets.remove("g", ("t", 0))
    offsets.end_transaction(7, True)
    assert offsets.get("g", ("t", 0)) is None


def test_an_older_record_never_replaces_a_committed_offset() -> None:
    offsets = OffsetTable(Journal())
    offsets.put("g", ("t", 0), OffsetAndMetadata(9, record_offset=2))
    with pytest.raises(AssertionError, match="goes back unasked"):
        offsets.put("g", ("t", 0), OffsetAndMetadata(5, record_offset=1))


def test_an_older_record_never_replaces_an_offset_of_a_transaction() -> None:
    offsets = OffsetTable(Journal())
    offsets.put_pending(7, "g", ("t", 0), OffsetAndMetadata(9, record_offset=2))
    with pytest.raises(AssertionError, match="goes back unasked"):
        offsets.put_pending(7, "g", ("t", 0), OffsetAndMetadata(5, record_offset=1))


def test_a_younger_record_may_name_a_smaller_offset() -> None:
    """A client that rewinds asks for it."""
    journal = Journal()
    offsets = OffsetTable(journal)
    for record_offset, offset in enumerate((9, 5)):
        journal.offset = record_offset
        offsets.put("g", ("t", 0), OffsetAndMetadata(offset, record_offset=record_offset))
        journal.commit_to(record_offset + 1)
        offsets.validate()
    assert offsets.committed("g", ("t", 0)) == OffsetAndMetadata(5, record_offset=1)


def test_an_offset_is_not_shown_before_its_record_is_committed() -> None:
    journal = Journal()
    offsets = OffsetTable(journal)
    journal.commit_to(3)
    journal.offset = 2
    offsets.put("g", ("t", 0), OffsetAndMetadata(5, record_offset=2))
    offsets.validate()
    offsets.put("g", ("t", 0), OffsetAndMetadata(9, record_offset=3))  # noted as if it were at 2
    with pytest.raises(AssertionError, match="before its record is committed"):
        offsets.validate()
