"""Where ``barnabas consume`` begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.cli.commands.consume import ReadingBounds
from barnabas.cli.failure import Failure
from barnabas.cli.moments import parse_moment
from barnabas.cli.records.partition_choice import chosen, parse_numbers
from barnabas.cli.records.read_range import ReadRange, parse_offset, starts_at, starts_from
from barnabas.client.offsets import EARLIEST, LATEST, OffsetAndTimestamp
from barnabas.host.client import Connected
from barnabas.types import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
LOGS = {ZERO: (2, [10, 20, 30]), ONE: (0, [5])}
"""The start offset and the timestamps of each partition."""


def offsets(
    partitions: Sequence[TopicPartition], at: int = LATEST, *, read_committed: bool = False
) -> dict[TopicPartition, OffsetAndTimestamp]:
    found = {}
    for tp in partitions:
        start, stamps = LOGS[tp]
        number = {EARLIEST: start, LATEST: start + len(stamps)}.get(at)
        if number is None:
            later = [start + index for index, stamp in enumerate(stamps) if stamp >= at]
            number = later[0] if later else -1
        if read_committed and at == LATEST:
            number = min(number, start + 1)  # a transaction is open from there on
        found[tp] = OffsetAndTimestamp(number, -1)
    return found


CONNECTED = cast(
    Connected, SimpleNamespace(offsets=offsets, partitions_of=lambda topics: [ZERO, ONE])
)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("now", 1_000_000),
        ("-10s", 990_000),
        ("-9999d", 0),
        ("+PT1M", 1_060_000),
        ("@77", 77),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T01:00:01+01:00", 1_000),
    ],
)
def test_a_moment_is_a_date_or_counted_from_now(text: str, ms: int) -> None:
    assert parse_moment(text, 1_000_000) == ms


@pytest.mark.parametrize("text", ["", "-", "@", "@-1", "@x", "-yesterday", "soon", "10m"])
def test_a_text_that_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a time is"):
        parse_moment(text, 0)


def test_an_offset_may_be_counted_from_the_end() -> None:
    assert starts_at(CONNECTED, [ZERO, ONE], "3") == {ZERO: 3, ONE: 3}
    assert starts_at(CONNECTED, [ZERO, ONE], "-2") == {ZERO: 3, ONE: 0}
    assert starts_at(CONNECTED, [ZERO], "beginning") == {ZERO: EARLIEST}
    assert starts_at(CONNECTED, [ZERO], "end") == {ZERO: LATEST}
    for text in ("", "--1", "²", "1.5", "99999999999999999999"):
        with pytest.raises(ValueError, match="an offset is"):
            parse_offset(text)


def test_a_time_begins_at_its_first_record_or_at_the_end() -> None:
    assert starts_from(CONNECTED, [ZERO, ONE], 15) == {ZERO: 3, ONE: 1}


def test_a_range_ends_where_its_first_bound_is() -> None:
    found = ReadRange({ZERO: 5, ONE: 1})
    found.narrow({ZERO: 4, ONE: 4})
    found.end_at_time(CONNECTED, [ZERO, ONE], "@20", 100)
    assert found.ends == {ZERO: 3, ONE: 1} and found.until_ms is None
    assert found.has(ZERO, 2, 0) and not found.has(ZERO, 3, 0)


def test_a_time_to_come_ends_the_range_once_it_has_passed() -> None:
    found = ReadRange()
    found.end_at_time(CONNECTED, [ZERO, ONE], "+0.02s", 10)
    assert found.until_ms == 30 and not found.ends
    assert found.has(ZERO, 99, 29) and not found.has(ZERO, 0, 30)
    found.on_time(CONNECTED, [ZERO, ONE], 29)
    assert not found.ends
    found.on_time(CONNECTED, [ZERO, ONE], 30)
    assert found.ends == {ZERO: 4, ONE: 1} and found.until_ms is None


def test_partitions_are_lists_and_ranges() -> None:
    assert parse_numbers("0, 3-5") == [0, 3, 4, 5]
    assert chosen(CONNECTED, ["t"], []) == [ZERO, ONE]
    assert chosen(CONNECTED, ["t"], ["1"]) == [ONE]
    with pytest.raises(Failure, match="no partition 2 of t"):
        chosen(CONNECTED, ["t"], ["0-2"])
    for text in ("", "-1", "5-3", "x", "0,,1", "0-99999999"):
        with pytest.raises(ValueError, match="partitions"):
            parse_numbers(text)


def bounds(**given: Any) -> ReadingBounds:
    nothing = ReadingBounds(False, None, None, False, None, None)
    return nothing._replace(**given)


def test_reading_with_an_end_begins_at_the_beginning() -> None:
    assert bounds().reset == "latest"
    for given in ({"exit_at_end": True}, {"to_time": "now"}, {"to_offset": 3}):
        assert bounds(**given).reset == "earliest"
    ranged = bounds(exit_at_end=True, to_offset=3).range(CONNECTED, [ZERO, ONE])
    assert ranged.ends == {ZERO: 3, ONE: 1}
    assert bounds(from_time="@20").starts(CONNECTED, [ZERO]) == {ZERO: 3}


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Failure, match="give one of"):
        bounds(from_beginning=True, offset="3").check(False, [])
    for given in ({"from_time": "now"}, {"to_offset": 0}, {"offset": "0"}):
        with pytest.raises(Failure, match="a group chooses"):
            bounds(**given).check(True, [])
    with pytest.raises(Failure, match="a group chooses"):
        bounds().check(True, ["0"])
    bounds(exit_at_end=True).check(True, [])


def test_committed_records_end_before_an_open_transaction() -> None:
    bounds = ReadingBounds(False, None, None, True, None, None)
    partitions = list(LOGS)
    committed = bounds.range(CONNECTED, partitions, committed=True).ends
    assert committed == {tp: start + 1 for tp, (start, _) in LOGS.items()}
