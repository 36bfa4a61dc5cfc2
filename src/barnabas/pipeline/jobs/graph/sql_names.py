"""The tables that a SQL query reads, and whether it aggregates: told from its words, without Spark.

Owns a scan of the query's words. It knows comments, quoted text and names, brackets, ``with`` and the clauses
that may follow ``from``; it knows no grammar. It serves the checks of a job's file and the order of its
steps. Spark's own parser decides what is valid.

Source: Spark's SQL reference (SELECT, FROM, JOIN, LATERAL VIEW, common table expressions).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
      |(?P<name>`(?:[^`]|``)+`(?:\s*\.\s*(?:`(?:[^`]|``)+`|\w+))*
        |[A-Za-z_]\w*(?:\s*\.\s*(?:`(?:[^`]|``)+`|[A-Za-z_]\w*))*)
      |(?P<other>\S)""",
    re.DOTALL | re.VERBOSE,
)
_ENDS_FROM = frozenset(
    ("where", "group", "having", "order", "limit", "offset", "union", "intersect", "except", "minus",
     "window", "sort", "cluster", "distribute", "select", "pivot", "unpivot", "lateral", "qualify")
)  # fmt: skip
_BEFORE_TABLE = frozenset(("from", "join"))
_NO_TABLE = frozenset(("values", "lateral", "select", "table", "stream"))


@dataclass(frozen=True, slots=True)
class SqlUse:
    """`tables` are single names in the order of their first use, without those that the query defines itself
    and without names with dots. `aggregated` are the tables below a ``group by`` or ``distinct``."""

    tables: tuple[str, ...]
    aggregated: tuple[str, ...] = ()
    has_watermark: bool = False


@dataclass(slots=True)
class _Level:
    """One pair of brackets."""

    has_select: bool = False
    wants_table: bool = False
    in_from: bool = False
    aggregates: bool = False
    tables: list[str] = field(default_factory=list)
    aggregated: list[str] = field(default_factory=list)

    def close(self) -> None:
        """A query ends here."""
        if self.aggregates:
            self.aggregated += self.tables


def used_by(sql: str) -> SqlUse:
    """The use of tables by a query."""
    words = [
        (found.lastgroup or "", found.group())
        for found in _TOKEN.finditer(sql)
        if found.lastgroup != "comment"
    ]
    own = _own_names(words)
    levels = [_Level()]
    for at, (kind, word) in enumerate(words):
        following = words[at + 1][1] if at + 1 < len(words) else ""
        if word == "(":
            levels[-1].wants_table = False
            levels.append(_Level())
        elif word == ")" and len(levels) > 1:
            inner = levels.pop()
            inner.close()
            levels[-1].tables += inner.tables
            levels[-1].aggregated += inner.aggregated
        elif word == ",":
            levels[-1].wants_table = levels[-1].in_from
        elif kind == "name":
            before = words[at - 1][1].lower() if at else ""
            _take(levels[-1], word, before, following)
    while levels:
        last = levels.pop()
        last.close()
        if levels:
            levels[-1].tables += last.tables
            levels[-1].aggregated += last.aggregated
    tables = tuple(dict.fromkeys(table for table in last.tables if table.lower() not in own))
    aggregated = last.aggregated
    if any(name.lower() in own for name in aggregated):
        aggregated = [*aggregated, *tables]
    has_watermark = any(kind == "name" and word.lower() == "watermark" for kind, word in words)
    kept = tuple(dict.fromkeys(name for name in aggregated if name.lower() not in own))
    return SqlUse(tables, kept, has_watermark)


def _take(level: _Level, word: str, before: str, following: str) -> None:
    """A name or keyword at its place."""
    low = word.lower()
    if low == "select":
        level.has_select = True
    elif low in ("union", "intersect", "except"):
        level.close()
        level.aggregates = False
    if low in _BEFORE_TABLE:
        # `extract(year from ts)` and `is distinct from` name no table.
        is_clause = low == "join" or level.has_select or not before
        level.wants_table = level.in_from = is_clause and before != "distinct"
        return
    if low in ("group", "distinct") and (
        following.lower() in ("by", "all") if low == "group" else before == "select"
    ):
        level.aggregates = True
    if low in _ENDS_FROM:
        level.wants_table = level.in_from = False
        return
    if not level.wants_table:
        return
    level.wants_table = False
    if low in _NO_TABLE or following == "(":
        return
    name = word.strip("`") if word.count("`") == 2 else word
    if "." not in name:
        level.tables.append(name)


def _own_names(words: list[tuple[str, str]]) -> set[str]:
    """Names that ``with`` defines, in lower case."""
    found: set[str] = set()
    if not any(word.lower() == "with" for _, word in words):
        return found
    for at, (kind, word) in enumerate(words):
        if kind != "name":
            continue
        after = at + 1
        if after < len(words) and words[after][1] == "(":  # names of its columns
            while after < len(words) and words[after][1] != ")":
                after += 1
            after += 1
        if [word.lower() for _, word in words[after : after + 2]] == ["as", "("]:
            found.add(word.strip("`").lower())
    return found
