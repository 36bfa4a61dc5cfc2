"""Our own lint of prose: docstrings are sentences, the names that they quote exist, and fields are named
after the classes that they hold.

A name in single backticks is one of ours; names of other programs, configuration keys and values take double
ones. Packages whose docstrings still begin with fragments are in ``fragments_ratchet.json``, which only
shrinks: ``python tests/test_prose.py`` writes it where it would.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script finds modules beside itself only

from tools.field_names import misnamed  # noqa: E402
from tools.import_circles import GENERATED, SOURCES  # noqa: E402
from tools.syntax_trees import nodes_by_kind, nodes_of  # noqa: E402

RATCHET_FILE = Path(__file__).with_name("fragments_ratchet.json")
FRAGMENTS = frozenset({"Of", "As", "What", "Where", "By", "For"})
"""First words of a docstring that has no subject."""
CODE = ("src", "tests", "tools", "bench", "examples")
NAMING = frozenset({"id", "attr", "name", "arg", "module", "asname"})
"""Fields of syntax trees that hold identifiers."""
QUOTED = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")


@cache
def files() -> list[Path]:
    return [p for p in sorted(SOURCES.rglob("*.py")) if p.parent.name not in GENERATED]


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring, those below fields included."""
    for node in nodes_of(path, ast.Expr):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


@cache
def fragments() -> dict[str, list[str]]:
    """Package → places of docstrings that begin with a fragment."""
    found: dict[str, list[str]] = {}
    for path in files():
        parts = path.relative_to(SOURCES).parts
        for line, text in docstrings(path):
            first = text.split(maxsplit=1)[:1]
            if first and first[0] in FRAGMENTS:
                place = f"{path.relative_to(ROOT)}:{line} {text.strip().splitlines()[0]}"
                found.setdefault("/".join(parts[:2]), []).append(place)
    return found


@cache
def names() -> frozenset[str]:
    """Every identifier, module and folder of the code."""
    found: set[str] = set()
    for folder in CODE:
        for path in (ROOT / folder).rglob("*.py"):
            found |= {path.stem, *path.relative_to(ROOT).parts}
            for kind, nodes in nodes_by_kind(path).items():
                for field in NAMING.intersection(kind._fields):
                    values = {getattr(node, field) for node in nodes}
                    found.update(*(v.split(".") for v in values if isinstance(v, str)))
    return frozenset(found)


def test_docstrings_begin_with_their_subject() -> None:
    allowed: dict[str, int] = json.loads(RATCHET_FILE.read_text())
    more = [
        "\n".join(
            [f"{package}: {len(places)} fragments, {allowed.get(package, 0)} are allowed", *places]
        )
        for package, places in fragments().items()
        if len(places) > allowed.get(package, 0)
    ]
    assert not more, "\n".join(more)


def test_the_fragments_ratchet_only_holds_what_is_needed() -> None:
    allowed: dict[str, int] = json.loads(RATCHET_FILE.read_text())
    counts = {package: len(places) for package, places in fragments().items()}
    loose = [package for package, count in allowed.items() if counts.get(package, 0) < count]
    assert not loose, f"shrunk; run `python tests/test_prose.py`: {loose}"


def test_names_in_backticks_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} `{name}`"
        for path in files()
        for line, text in docstrings(path)
        for name in QUOTED.findall(text)
        if not all(part in names() for part in name.split("."))
    ]
    assert not wrong, "names of ours that do not exist (others take two backticks):\n" + "\n".join(
        wrong
    )


def test_fields_are_named_after_what_they_hold() -> None:
    wrong = misnamed()
    assert not wrong, "\n".join(map(str, wrong))


def write_ratchet() -> int:
    """Let the counts shrink or go."""
    counts = Counter({package: len(places) for package, places in fragments().items()})
    RATCHET_FILE.write_text(json.dumps(dict(sorted(counts.items())), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(write_ratchet())
