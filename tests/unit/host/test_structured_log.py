"""Log lines: one line each, readable by people and by programs."""

from __future__ import annotations

import os

import pytest

from barnabas import limits
from barnabas.host.structured_log import StructuredLog, format_line


def test_a_line_has_instant_level_event_and_fields() -> None:
    line = format_line(1_700_000_000.25, "info", "raft.leader", {"epoch": 4, "took_ms": 1.5})
    assert line == "2023-11-14T22:13:20.250Z info    raft.leader epoch=4 took_ms=1.5\n"


def test_values_that_would_break_the_line_are_quoted() -> None:
    line = format_line(0, "error", "x", {"why": "a b\nc", "empty": "", "quote": 'say "no"'})
    assert line.count("\n") == 1
    assert 'why="a b\\nc"' in line
    assert 'empty=""' in line
    assert 'quote="say \\"no\\""' in line


def test_a_line_is_bounded() -> None:
    line = format_line(0, "error", "x", {"huge": "y" * 1_000_000})
    assert len(line) <= limits.LOG_LINE_CHARS_MAX + 4


def test_lines_below_the_level_are_counted_but_not_written() -> None:
    reader, writer = os.pipe()
    journal = StructuredLog(writer, "warning")
    journal.write("info", "quiet", {})
    journal.write("error", "loud", {})
    os.close(writer)
    with os.fdopen(reader) as file:
        assert [line.split()[2] for line in file] == ["loud"]
    assert journal.counts == {"info": 1, "error": 1}


def test_levels_may_change_while_lines_are_written() -> None:
    reader, writer = os.pipe()
    journal = StructuredLog(writer, "warning")
    journal.write("info", "raft.first", {})
    journal.loggers.set("raft", "DEBUG")
    journal.write("debug", "raft.second", {})
    journal.write("info", "broker.third", {})
    os.close(writer)
    with os.fdopen(reader) as file:
        assert [line.split()[2] for line in file] == ["raft.second"]


def test_a_reader_that_went_away_loses_lines_only() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    journal = StructuredLog(writer, "info")
    journal.write("info", "lost", {})
    os.close(writer)
    assert journal.counts["lost"] == 1


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="a log level is"):
        StructuredLog(2, "loud")
