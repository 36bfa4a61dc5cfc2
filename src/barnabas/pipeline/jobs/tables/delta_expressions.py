"""Expressions of a Delta table that mean the same to Spark, whose SQL they are, and to deltalake.

deltalake computes generated columns and checks constraints by DataFusion, whose functions have Spark's names
and sometimes another meaning: ``date_format(t, 'yyyy')`` is the text *yyyy*, ``k / 2`` of whole numbers is a
whole number, ``concat`` skips nulls. So an expression may have the operators and functions listed here; a
table with another one is refused. A timestamp that is cast to a date is taken in UTC, the job's time zone.
Source: Spark's built-in functions, DataFusion's scalar functions.
"""

from __future__ import annotations

import re

SAME = frozenset({"abs", "cast", "char_length", "coalesce", "length", "lower", "trim", "upper"})
"""Functions that give the same in both."""
WORDS = frozenset(
    {
        *("and", "or", "not", "in", "between", "is", "like", "case", "when", "then", "else", "as"),
        *("decimal", "varchar", "char"),
    }
)
"""Other words that may be before a bracket."""
OTHER_OPERATORS = re.compile(
    r"/|\bdiv\b|\|\||::|[&|^~]|\bilike\b|\brlike\b|\bregexp\b", re.IGNORECASE
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_CALL = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)\s*\(")


def what_differs(expression: str) -> str | None:
    """The first operator or function of an expression that may mean something else to deltalake."""
    bare = _QUOTED.sub("x", expression)
    operator = OTHER_OPERATORS.search(bare)
    if operator is not None:
        return operator.group()
    names = (found[1].lower() for found in _CALL.finditer(bare))
    return next((name for name in names if name not in SAME | WORDS), None)
