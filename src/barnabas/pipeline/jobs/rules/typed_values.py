"""The rules for a job with decoded or encoded values: checked in its file, before any record is read.

Owns two rules. Column `value` has bytes, so a writer with ``value.format`` needs a transformation that makes
a struct of it. A value that cannot be decoded has null `data`: SQL that reads `data` reads `_error` too, or
the job has dead letters. Otherwise bad records would become rows of nulls or tombstones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from barnabas.pipeline.read.columns import DATA, ERROR

FORMAT = "value.format"
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)


def check_source(options: Mapping[str, str], sql: str, *, has_dead_letters: bool) -> str | None:
    """The fault of SQL over a source with these options."""
    if FORMAT not in options or has_dead_letters:
        return None
    words = set(re.findall(r"\w+", _TEXT.sub(" ", sql).lower()))
    if DATA not in words or ERROR in words:
        return None
    return (
        f"reads {DATA}, which is null where a value cannot be decoded: give [dead_letters], or read"
        f" {ERROR} too (where {ERROR} is null)"
    )


def check_writer(options: Mapping[str, str]) -> str | None:
    """The fault of a writer of these options that is given records as they were read."""
    if FORMAT not in options:
        return None
    return (
        f"{FORMAT} encodes a struct, and this writer is given the bytes of column value: a transformation"
        " makes the struct, as select key, struct(id, name) as value"
    )
