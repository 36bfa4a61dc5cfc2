"""The assertions and checkers that docs/invariants.md names exist, and state something."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tools.syntax_trees import tree_of

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "barnabas"
PAGE = (ROOT / "docs" / "invariants.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
]
INVARIANTS = {row[0]: row for row in ROWS if len(row) == 5}
STATED = re.compile(r"\b(?:assert|raise)\b")


@cache
def methods() -> dict[tuple[str, str], str]:
    """The source of each method and function of the product, by (class or module, name)."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        if "messages" in path.parts or "records" in path.parts:
            continue
        text = path.read_text("utf-8")
        lines = text.splitlines()
        tree = tree_of(path)
        owners = [
            (path.stem, tree),
            *((n.name, n) for n in tree.body if isinstance(n, ast.ClassDef)),
        ]
        for owner, node in owners:
            for item in getattr(node, "body", ()):
                if isinstance(item, ast.FunctionDef):
                    found[owner, item.name] = "\n".join(lines[item.lineno - 1 : item.end_lineno])
    return found


def test_there_are_twelve_invariants_each_with_assertion_and_checker() -> None:
    assert list(INVARIANTS) == [str(number) for number in range(1, 13)]
    assert all(all(row) for row in INVARIANTS.values())


@pytest.mark.parametrize("number", INVARIANTS)
def test_an_invariant_is_asserted_where_its_state_is(number: str) -> None:
    _, _, owner, assertion, _ = INVARIANTS[number]
    for path in re.findall(r"`([\w/]+(?:\.py|/))`", owner):
        assert (SOURCES / path).exists(), path
    named = re.findall(r"`(\w+)\.(\w+)`", assertion)
    assert named, assertion
    for owner_name, name in named:
        assert (owner_name, name) in methods(), f"{owner_name}.{name} does not exist"
    assert any(STATED.search(methods()[key]) for key in named), f"nothing is asserted in {named}"


@pytest.mark.parametrize("number", INVARIANTS)
def test_an_invariants_checker_exists(number: str) -> None:
    checkers = INVARIANTS[number][4]
    for path in re.findall(r"`((?:\w+/)*\w+\.py)`", checkers):
        places = [SOURCES / path, SOURCES / "sim" / path, SOURCES / "sim" / "checkers" / path]
        assert any(place.exists() for place in places), path
