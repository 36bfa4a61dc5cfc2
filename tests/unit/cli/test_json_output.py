"""The table of shapes knows every command with --json, and finds what differs from a shape."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from barnabas.cli.application import build
from barnabas.cli.command_table import COMMANDS
from barnabas.cli.json_output.outputs import OUTPUTS, WITHOUT_JSON, output_of
from barnabas.cli.json_output.shapes import ANY, Either, Map, mismatches, text_of

STATES = {
    "doctor", "topics list", "topics describe", "groups list", "groups describe", "groups lag",
    "transactions list", "transactions describe", "transactions find-hanging", "users list",
    "tokens list", "quotas describe", "certificates list", "reassign status", "cluster describe",
    "cluster metrics", "cluster client-metrics", "features describe", "quorum describe",
    "migrate status", "log dirs describe", "pipeline status",
}  # fmt: skip
"""The commands that show a state."""


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for sub, inner in command.commands.items():
        yield from commands(f"{name} {sub}".strip(), inner)


@cache
def tree() -> tuple[tuple[str, Any], ...]:
    """Every command of the command line, by its words."""
    return tuple(commands("", typer.main.get_command(build(list(COMMANDS)))))


def with_option(option: str) -> set[str]:
    return {
        name
        for name, command in tree()
        if any(option in parameter.opts for parameter in command.params)
    }


def test_every_command_has_json_where_that_makes_sense() -> None:
    assert {name for name, _ in tree()} - with_option("--json") == set(WITHOUT_JSON)


def test_json_has_one_name_and_one_parameter_in_every_command() -> None:
    found = {
        parameter.name
        for _, command in tree()
        for parameter in command.params
        if "--json" in parameter.opts
    }
    assert found == {"as_json"}


def test_every_command_with_json_has_a_documented_shape() -> None:
    assert with_option("--json") == set(OUTPUTS)


def test_every_command_that_shows_a_state_can_be_watched() -> None:
    assert with_option("--watch") == STATES


@pytest.mark.parametrize(
    ("value", "shape", "wrong"),
    [
        ({"a": 1}, {"a": int}, []),
        ({"a": 1, "b": 2}, {"a": int}, ["$.b is not documented"]),
        ({}, {"a": int, "b?": int}, ["$.a is missing"]),
        ([{"a": None}], [{"a": int | None}], []),
        ([{"a": "x"}], [{"a": int}], ["$[0].a is 'x', not integer"]),
        (True, int, ["$ is True, not integer"]),
        (1, float, []),
        ({"x": 1, "y": "z"}, Map("broker", int), ["$.y is 'z', not integer"]),
        ([], Either(({"a": int}, [int])), []),
        (3, Either(([int], str)), ["$ is no list"]),
        ({"a": [object()]}, ANY, []),
        ("x", {"a": int}, ["$ is no object"]),
        ("x", Map("a", int), ["$ is no object"]),
    ],
)
def test_a_value_is_compared_with_its_shape(value: Any, shape: Any, wrong: list[str]) -> None:
    assert list(mismatches(value, shape)) == wrong


def test_a_shape_reads_like_json() -> None:
    assert text_of({"a": [int], "b?": str | None}) == (
        '{\n  "a": [integer, ...],\n  "b": string or null (may be missing)\n}'
    )


def test_words_name_the_longest_command() -> None:
    assert output_of(["log", "dirs", "describe", "--json"]) == "log dirs describe"
    assert output_of(["doctor", "--sample", "0"]) == "doctor"
