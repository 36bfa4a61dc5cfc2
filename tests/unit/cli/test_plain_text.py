"""Names and values of other clients reach a terminal without control characters."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

import barnabas.cli
from barnabas.cli.connection.connect import event_line, print_table, show, table_of
from barnabas.cli.main import main
from barnabas.cli.plain_text import counted, say, users_first, visible, visible_bytes
from barnabas.cli.records.record_json import Line
from barnabas.cli.records.record_lines import chosen_format, with_options
from barnabas.client.records import ConsumerRecord
from barnabas.host.client import connect
from barnabas.metadata.views.cluster_events import ClusterEvent

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
HOSTILE = "".join(chr(code) for code in range(0xA0) if chr(code) not in "\n\t")
ESCAPES = "g\x1b[2J\x1b]0;title\x07\x9b31m\r\x7f"
CLI = Path(barnabas.cli.__file__).parent
PRINTERS = {"print", "echo", "secho"}
OWN_STREAMS = {
    "plain_text.py": {"print"},
    "connection/connect.py": {"Table", "Console"},
    "reassignment/reassignment_progress.py": {"Console"},
    "records/consuming.py": {"buffer"},
    "records/sharing.py": {"buffer"},
    "records/tailing.py": {"buffer"},
    "progress.py": {"sys.stderr"},
}
"""What each module may use of the ways to a stream; it makes text plain itself."""


@pytest.mark.parametrize("text", [HOSTILE, ESCAPES])
def test_a_sentence_has_no_control_character(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(f"group {text}")
    say(f"group {text}", err=True)
    out, err = capsys.readouterr()
    assert out == err and out.startswith("group ") and not CONTROL.search(out)


def test_a_sentence_shows_which_characters_it_had(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[1m\r\x9b\udcff\tb\nc é")
    assert capsys.readouterr().out == "a\\x1b[1m\\r\\x9b\\udcff\tb\nc é\n"


def test_a_failure_has_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "t", "--group", ESCAPES, "--partition", "1"]) == 2
    assert main(["up", "--data", f"/dev/null/{ESCAPES}", "--nodes", "1"]) != 0
    assert not CONTROL.search(capsys.readouterr().err)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_table_has_no_control_character(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(ESCAPES, "name", HOSTILE, right=("name",))
    table.add_row(ESCAPES, HOSTILE)
    show(as_json, {ESCAPES: [HOSTILE, ESCAPES.encode()]}, table)
    assert not CONTROL.search(capsys.readouterr().out)


def test_a_table_in_a_terminal_has_only_escapes_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "400")
    table = table_of(ESCAPES, "name")
    table.add_row(ESCAPES)
    print_table(table)
    out = capsys.readouterr().out
    assert not CONTROL.search(re.sub(r"\x1b\[[0-9;]*m", "", out))
    assert "\x1b[2J" not in out and "\\x1b[2J" in out


def record(value: bytes) -> ConsumerRecord:
    return ConsumerRecord(topic="t", partition=0, offset=0, timestamp_ms=0, key=value, value=value)


def line_of(*, raw: bool, keys: bool = False, as_json: bool = False) -> Line:
    chosen = chosen_format(None, keys=keys, as_json=as_json)
    with connect("localhost:1") as connected:
        return with_options(chosen, null=None, is_raw=raw, registry=None).line(connected)


def test_a_consumed_value_is_raw_for_programs_only() -> None:
    value = ESCAPES.encode() + b"\x9b\xff"
    line = line_of(raw=True, keys=True)(record(value))
    assert line == value + b"\t" + value + b"\n"
    shown = line_of(raw=False, keys=True)(record(value))
    assert not CONTROL.search(shown.decode()) and b"\\x9b\\xff" in shown


@pytest.mark.parametrize("raw", [False, True])
def test_a_consumed_record_as_json_has_escapes_of_json(raw: bool) -> None:
    line = line_of(raw=raw, as_json=True)(record(HOSTILE.encode())).decode()
    assert not CONTROL.search(line) and json.loads(line)["value"] == HOSTILE


def test_text_without_control_characters_is_as_it_was() -> None:
    text = "grüße, 你好 \t 😀 ~\\x1b\n"
    assert visible(text) == text and visible_bytes(text.encode()) == text.encode()


def uses(path: Path) -> set[str]:
    """The ways to a stream that a module uses."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in ("buffer", "echo", "secho"):
            found.add(node.attr)
        if isinstance(node, ast.Attribute) and node.attr == "write":
            stream = ast.unparse(node.value)
            found |= {stream} & {"sys.stdout", "sys.stderr"}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {node.func.id} & (PRINTERS | {"Table", "Console"})
    return found


@pytest.mark.slow
def test_every_command_prints_plain_text() -> None:
    """A new command that writes to a stream by itself would hand on what a name has."""
    wrong = {
        str(path.relative_to(CLI)): used
        for path in sorted(CLI.rglob("*.py"))
        if (used := uses(path)) and not used <= OWN_STREAMS.get(str(path.relative_to(CLI)), set())
    }
    assert not wrong


def test_an_event_has_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    say(event_line(ClusterEvent(0, 0, "topic", ESCAPES, ESCAPES, ESCAPES)))
    assert not CONTROL.search(capsys.readouterr().out)


FORGED = "g\nother-group  Stable\r\n"


def test_a_line_feed_in_a_name_makes_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of(None, "group", "state")
    table.add_row(FORGED, "Empty")
    print_table(table)
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert len(lines) == 2 and "g\\nother-group" in lines[1]


def test_one_thing_is_counted_in_the_singular() -> None:
    assert [counted(count, "node") for count in (0, 1, 2_000)] == [
        "0 nodes",
        "1 node",
        "2,000 nodes",
    ]
    assert counted(3, "batch", "batches") == "3 batches"


def test_internal_topics_are_named_after_those_of_users() -> None:
    names = ["__consumer_offsets-0", "flights-0", "__consumer_offsets-1", "flights-1"]
    assert users_first(names) == ["flights-0", "flights-1", *names[::2]]
