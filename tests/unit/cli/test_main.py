"""How commands end, whatever they were doing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.cli import application
from barnabas.cli import main as module
from barnabas.cli.local import node_start

BARNABAS = str(Path(sys.executable).with_name("barnabas"))


def test_an_interrupt_while_a_command_is_loaded_sets_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(application, "import_module", interrupt)
    assert module.main(["topics", "list"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_node_starts_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Path, bool]] = []

    def start(file: Path, *, end_with_input: bool = False) -> int:
        started.append((file, end_with_input))
        return 7

    monkeypatch.setattr(node_start, "start_node", start)
    assert module.main(["node", "start", "/etc/node.properties"]) == 7
    assert module.main(["node", "start", "--end-with-input", "/etc/node.properties"]) == 7
    file = Path("/etc/node.properties")
    assert started == [(file, False), (file, True)]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["--help"], ["completion", "bash"]])
def test_an_output_that_takes_no_more_is_a_sentence(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [BARNABAS, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (
        1,
        "the output cannot be written: No space left on device\n",
    )


@pytest.mark.slow
def test_an_encoding_that_lacks_a_character_is_served() -> None:
    program = "from barnabas.cli import main, plain_text; main.main(['node', 'health']);"
    done = subprocess.run(
        [sys.executable, "-c", f"{program} plain_text.say('now \N{RIGHTWARDS ARROW} then')"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "now ? then\n", done.stderr


@pytest.mark.slow
def test_a_nodes_process_does_not_hold_what_reads_command_lines() -> None:
    program = (
        "import sys, barnabas.cli.main, barnabas.cli.local.node_start, barnabas.host.main;"
        "print(sorted({'typer', 'rich', 'pydantic'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
