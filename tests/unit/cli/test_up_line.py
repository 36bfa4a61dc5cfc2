"""A usual line of `barnabas up` means the same to the short reader as to the whole command line."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from barnabas.cli import application
from barnabas.cli.commands import up
from barnabas.cli.up.up_line import FLAGS, NUMBERS, SETTING, TEXTS, read_line
from barnabas.cli.up.up_run import UpOptions

LINES = [
    "",
    "--ephemeral",
    "--nodes 3 --data /tmp/d",
    "--data d --set a=b --set c=d --secure --restart --console",
    "--ephemeral --port 9092 --racks a,b --replace-lost",
    "--data d --remove-at-end d --end-with-input --tell-ready 3 --coordinators",
]
LEFT_TO_TYPER = [
    "--help", "--nodes", "--nodes 0", "--nodes 101", "--nodes ²", "--port 65536", "--nodes=3",
    "--no-restart", "extra", "--data --secure", "--coordination kraft", "--release 4.3",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_usual_line_means_what_it_means_to_the_command_line(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[UpOptions] = []

    def run_up(options: UpOptions) -> int:
        given.append(options)
        return 0

    monkeypatch.setattr(up, "run_up", run_up)
    with pytest.raises(SystemExit):
        application.build(["up"])(["up", *line.split()], prog_name="barnabas")
    (by_typer,) = given
    read = read_line(line.split())
    assert read is not None
    assert read == by_typer._replace(feature=())


@pytest.mark.parametrize("line", LEFT_TO_TYPER)
def test_another_line_is_left_to_the_command_line(line: str) -> None:
    assert read_line(line.split()) is None


def test_the_command_has_every_option_that_the_short_reader_knows() -> None:
    parameters = list(inspect.signature(up.command).parameters)
    assert parameters == list(UpOptions._fields)
    known = {*FLAGS, *NUMBERS, *TEXTS} - {SETTING}
    assert {option.removeprefix("--").replace("-", "_") for option in known} < set(parameters)


def test_a_directory_stays_a_path() -> None:
    read = read_line(["--data", "d"])
    assert read is not None and read.data == Path("d")
