"""Dates and durations as people write them."""

from __future__ import annotations

import pytest

from barnabas.cli.moments import ago, date_text, parse_date, parse_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H30M5.5S", 95_405_500),
        ("1d2h30m5.5s", 95_405_500),
        ("90s", 90_000),
        ("15M", 900_000),
    ],
)
def test_a_duration_is_written_as_iso_or_short(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "h", "yesterday", "-1h"])
def test_a_malformed_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration is"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["99999999999999999d", "9" * 400 + "d", "P106751991168D"])
def test_a_duration_of_more_than_64_bits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration(text)


def test_a_date_beyond_all_calendars_is_its_milliseconds() -> None:
    assert date_text(86_400_000) == "1970-01-02 00:00:00"
    assert date_text((1 << 63) - 1) == f"{(1 << 63) - 1} ms"


def test_a_date_without_a_zone_is_utc() -> None:
    assert parse_date("1970-01-02") == parse_date("1970-01-02T01:00:00+01:00") == 86_400_000
    with pytest.raises(ValueError, match="a date is"):
        parse_date("tomorrow")


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (0, "0 ms ago"),
        (3_400, "3.4 s ago"),
        (61_000, "1 min ago"),
        (7_300_000, "2 h ago"),
        (9 * 86_400_000, "9 days ago"),
        (-5, "0 ms ago"),
    ],
)
def test_a_moment_is_printed_as_how_long_ago_it_was(passed: int, text: str) -> None:
    assert ago(10**12 - passed, 10**12) == text
    assert ago(-1, 10**12) == "never"
