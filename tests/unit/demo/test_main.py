"""What the demo leaves behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from barnabas.demo import __main__ as demo
from barnabas.demo.outcome import Check
from barnabas.demo.story import DemoStory


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A demo that is over at once, and well."""
    monkeypatch.setattr(demo, "missing_java", lambda: None)
    monkeypatch.setattr(DemoStory, "run", lambda _: [Check("claim", "1", "1")])
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


@pytest.mark.parametrize("form", ["--data {}", "--data={}", "--dat {}"])
def test_a_directory_that_was_given_is_kept(tmp_path: Path, form: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter").write_text("dear")
    assert demo.main(form.format(mine).split()) == 0
    assert (mine / "letter").exists()


def test_nothing_is_left_of_a_directory_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demo.main([]) == 0
    monkeypatch.setattr(demo, "missing_java", lambda: "no Java")
    assert demo.main([]) == 1
    assert list((tmp_path / "temporary").iterdir()) == []
