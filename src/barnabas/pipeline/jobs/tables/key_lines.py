"""On which line of a TOML file each key is: what :mod:`tomllib` does not say.

Owns headers and ``key = value`` at the begin of a line, as people write them. A key inside an inline table
is looked for in the lines of the table. Lines count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str, ...]
"""Names from the top; the number of a ``[[sink]]`` follows its name. Dotted keys are one name each part."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_KEY = re.compile(rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=(?!=)")
_IN_LINE = re.compile(rf"[{{,]\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=(?!=)")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of each table and key; the first where one is there twice."""
    found: dict[KeyPath, int] = {}
    above: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header is not None:
            above = _table(split_key(header[2]), header[1] == "[[", counts)
            found.setdefault(above, number)
            continue
        key = _KEY.match(line)
        if key is None:
            continue
        path = above + split_key(key[1])
        found.setdefault(path, number)
        for inner in _IN_LINE.finditer(line, key.end()):
            found.setdefault(path + split_key(inner[1]), number)
    return found


def _table(names: KeyPath, is_list: bool, counts: dict[KeyPath, int]) -> KeyPath:
    if is_list:
        counts[names] = counts.get(names, -1) + 1
        return (*names, str(counts[names]))
    for end in range(len(names) - 1, 0, -1):  # [sink.options] is of the last [[sink]]
        if names[:end] in counts:
            return (*names[:end], str(counts[names[:end]]), *names[end:])
    return names


def split_key(text: str) -> KeyPath:
    """``a."b.c".d`` as names: a quoted name with dots is as many names as it has parts."""
    names = [part.group().strip("\"'") for part in re.finditer(_NAME, text)]
    return tuple(part for name in names for part in name.split("."))


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """The line of the key, or of the nearest table around it; 1 where there is none."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 1
