"""The line that says how far long work is."""

from __future__ import annotations

import pytest

from barnabas.cli import progress as module
from barnabas.cli.progress import ProgressLine, progress_line


def test_a_line_says_the_rate_and_what_is_left() -> None:
    assert (
        progress_line(1200, 4000, 2.0, "records") == "1,200 of 4,000 records, 30%, 600/s, 5 s left"
    )
    assert progress_line(1200, None, 2.0, "records") == "1,200 records, 600/s"
    assert progress_line(0, 5, 0.0, "records") == "0 of 5 records, 0%, 0/s"
    assert progress_line(0, 0, 1.0, "records") == "0 of 0 records"


def test_a_line_is_written_over_and_removed_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEGIN_S", 0.0)
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    with ProgressLine("records", 2, is_shown=True) as progress:
        progress.update(1)
        progress.update(2)
    shown = capsys.readouterr().err
    assert shown.count("\r") == 4 and shown.endswith(" \r") and "\n" not in shown


def test_a_line_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine("records", 2) as progress:
        progress.update(1)
    assert capsys.readouterr().err == ""
