"""``--watch``: a state is shown again and again, through outages, in the form that its reader can use."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import typer

from barnabas.cli.confirming import USAGE
from barnabas.cli.connection.connect import AsJson, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.watching import watched


def looks(*outcomes: str | Exception) -> Callable[..., None]:
    """A command that shows or raises these in turn, and is then interrupted."""
    left = list(outcomes)

    @watched
    def command(name: str = "t", as_json: AsJson = False) -> None:
        if not left:
            raise KeyboardInterrupt
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        table = table_of(None, "topic", "state")
        table.add_row(name, outcome)
        show(as_json, [{"topic": name, "state": outcome}], table)

    return command


def watch(command: Callable[..., None], *, as_json: bool = False) -> None:
    with pytest.raises(KeyboardInterrupt):
        command(watch=True, interval=0, as_json=as_json)


def test_a_command_that_is_not_watched_runs_once(capsys: pytest.CaptureFixture[str]) -> None:
    looks("healthy")()
    assert capsys.readouterr().out.count("healthy") == 1


def test_outputs_follow_each_other_under_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    watch(looks("healthy", "offline"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("-- 20") for line in lines] == [True, False, False] * 2
    assert "healthy" in lines[2] and "offline" in lines[5]


def test_each_look_in_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    watch(looks("healthy", "offline"), as_json=True)
    states = [json.loads(line)[0]["state"] for line in capsys.readouterr().out.splitlines()]
    assert states == ["healthy", "offline"]


def test_an_outage_is_shown_and_watched_on(capsys: pytest.CaptureFixture[str]) -> None:
    watch(looks(Failure("1.2.3.4:9 cannot be reached", 3), typer.Exit(1), "healthy"))
    out = capsys.readouterr().out
    assert "cannot be reached" in out and "healthy" in out


def test_a_wrong_usage_ends_the_watch() -> None:
    with pytest.raises(Failure, match="say which"):
        looks(Failure("say which", USAGE))(watch=True, interval=0)


def test_the_options_are_the_commands_own_and_those_of_watching() -> None:
    app = typer.Typer()
    app.command()(looks())
    names = {parameter.name for parameter in typer.main.get_command(app).params}
    assert {"name", "as_json", "watch", "interval"} <= names


def test_a_terminal_has_the_newest_look_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    watch(looks("healthy", Failure("\x1b[31mhostile", 3)))
    first, second = capsys.readouterr().out.split("\x1b[H")[1:]
    assert "healthy" in first and first.endswith("\x1b[J")
    assert "\\x1b[31mhostile" in second and "\x1b[31m" not in second
