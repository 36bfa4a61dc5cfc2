"""What the demo leaves behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from barnabas.cli.local.console_process import ConsoleProcess
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


def test_the_pages_stay_until_enter_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(DemoStory, "pages", "http://127.0.0.1:1")
    monkeypatch.setattr("builtins.input", asked.append)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    assert demo.main(["--console"]) == 0
    assert asked == []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert demo.main(["--console"]) == 0
    assert asked == ["http://127.0.0.1:1/events shows why. Enter stops the nodes. "]
    assert "Every figure agrees" in capsys.readouterr().out


def test_the_address_of_the_console_is_known_when_its_line_is_whole(tmp_path: Path) -> None:
    output = tmp_path / "console.log"
    console = ConsoleProcess(tmp_path, output)
    assert console.address is None
    output.write_text("a warning\nconsole: http://127.0.0.1:8")
    assert console.address is None
    output.write_text("a warning\nconsole: http://127.0.0.1:8180/\n")
    assert console.address == "http://127.0.0.1:8180"
