"""The wheel leaves out exactly the messages and records that no source names."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "barnabas"
GENERATED = (
    "wire/messages", "metadata/records", "group/records", "share/records", "transaction/records",
)  # fmt: skip


def left_out() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text()
    patterns = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    names = (path.relative_to(ROOT).as_posix() for path in SOURCES.rglob("*.py"))
    return {name for name in names if any(fnmatch(name, pattern) for pattern in patterns)}


def named_nowhere() -> set[str]:
    words: set[str] = set()
    modules = []
    for path in SOURCES.rglob("*.py"):
        if path.relative_to(SOURCES).as_posix().startswith(GENERATED):
            if path.stem not in ("__init__", "index"):
                modules.append(path)
        elif path.name != "api_table.py":
            words |= set(re.findall(r"\w+", path.read_text()))
    return {path.relative_to(ROOT).as_posix() for path in modules if path.stem not in words}


@pytest.mark.slow
def test_the_wheel_leaves_out_the_messages_that_no_source_names() -> None:
    assert left_out() == named_nowhere() - imported_from_records()


def imported_from_records() -> set[str]:
    """Records that a package reads by their key: all of the metadata log's and the transaction log's."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in ("metadata/records", "transaction/records")
        for path in (SOURCES / folder).glob("*.py")
    }
