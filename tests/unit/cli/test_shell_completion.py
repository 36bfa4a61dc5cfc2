"""Completion by TAB, by the shells themselves where they are installed; a program answers for a cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from barnabas.cli.command_table import COMMANDS
from barnabas.cli.commands.completion import PLAIN_NAME
from barnabas.cli.main import main
from barnabas.cli.shell_completion import places, script

pytestmark = pytest.mark.slow

ANSWERS = """#!/bin/sh
[ "$1 $2" = "completion words" ] || exit 1
shift 2
echo "$1-one"
echo "$1-two"
echo "hosts:9092"
echo '$(touch ran)'
echo '`touch ran`'
echo '*'
echo "asked:$*" >> "$ASKED"
"""


class Shell:
    """A shell with the script of `name`; `barnabas` on its path answers with two names of each kind."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.script = folder / f"script.{name}"
        self.script.write_text(script(name))
        program = folder / "barnabas"
        program.write_text(ANSWERS)
        program.chmod(0o755)
        self.asked = folder / "asked"
        self.environment = os.environ | {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "ASKED": str(self.asked),
            "HOME": str(folder),
        }

    def completed(self, line: str) -> set[str]:
        """What TAB offers behind `line`."""
        words = line.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        if self.name == "bash":
            cut = [part for word in words for part in re.findall(r"[:=]+|[^:=]+|^$", word)]
            cut_words = " ".join(f"'{part}'" for part in cut)
            program = (
                f"source {self.script}; COMP_WORDS=({cut_words}); COMP_CWORD={len(cut) - 1};"
                f" COMP_LINE='{line}'; COMP_POINT={len(line)}; _barnabas;"
                ' printf "%s\\n" "${COMPREPLY[@]}"'
            )
            command = ["bash", "--norc", "-c", program]
        elif self.name == "zsh":
            program = (
                f"compdef() {{ : }}; _files() {{ : }}; source {self.script};"
                f' compadd() {{ print -l -- "${{@:2}}" }}; words=({quoted}); CURRENT={len(words)};'
                " _barnabas"
            )
            command = ["zsh", "-f", "-c", program]
        else:
            command = ["fish", "-c", f"source {self.script}; complete -C '{line}'"]
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.script.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )  # fmt: skip
        assert not done.stderr, done.stderr
        found = {word.split("\t")[0] for word in done.stdout.split("\n") if word}
        return {word for word in found if word.startswith(words[-1])}


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return Shell(request.param, tmp_path_factory.mktemp(request.param))


def test_commands_are_offered_and_their_options(shell: Shell) -> None:
    assert set(COMMANDS) <= shell.completed("barnabas ")
    assert shell.completed("barnabas to") == {"topics", "tokens"}
    assert {"create", "describe", "delete-records"} <= shell.completed("barnabas topics ")
    assert shell.completed("barnabas topics create --repl") == {
        "--replication-factor",
        "--replica-assignment",
    }
    assert "--partitioner" in shell.completed("barnabas produce t --part")


def test_names_are_those_of_the_cluster_that_the_line_names(shell: Shell) -> None:
    assert shell.completed("barnabas consume --bootstrap=x:1 -b here:1 topics-o") == {"topics-one"}
    assert "asked:topics -b here:1" in shell.asked.read_text()
    assert {"groups-one", "groups-two"} <= shell.completed("barnabas groups describe ")
    assert {"groups-one", "groups-two"} <= shell.completed("barnabas consume t --group ")
    assert {"profiles-one"} <= shell.completed("barnabas topics list --profile profiles-o")
    assert not any("-one" in word for word in shell.completed("barnabas topics create "))


def test_every_command_has_a_place() -> None:
    found = {place.path: place for place in places()}
    assert set(COMMANDS) <= set(found[""].words) and "topics describe" in found
    assert "words" not in found["completion"].words


def test_no_names_are_printed_where_no_cluster_answers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["completion", "words", "topics", "--bootstrap", "localhost:1"]) == 3
    assert capsys.readouterr().out == ""
    assert main(["completion", "words", "brokers"]) == 2
    assert main(["profiles", "create", "here", "--bootstrap", "h:1"]) == 0
    capsys.readouterr()
    assert main(["completion", "words", "profiles"]) == 0
    assert capsys.readouterr().out == "here\n"


def test_a_name_that_is_a_command_is_not_run(shell: Shell) -> None:
    shell.completed("barnabas groups describe ")
    assert not (shell.script.parent / "ran").exists()


def test_an_address_in_the_line_reaches_the_cluster_whole(shell: Shell) -> None:
    shell.completed("barnabas groups describe -b hosts:9092 ")
    assert shell.asked.read_text().splitlines()[-1] == "asked:groups -b hosts:9092"


@pytest.mark.parametrize(
    ("name", "is_plain"),
    [("billing", True), ("a.b:c@d/e+f-1", True), ("$(x)", False), ("-x", False), ("a b", False),
     ("*", False), ("`x`", False), ("", False)],
)  # fmt: skip
def test_shells_get_the_names_that_they_take_as_they_are(name: str, is_plain: bool) -> None:
    assert bool(PLAIN_NAME.fullmatch(name)) is is_plain
