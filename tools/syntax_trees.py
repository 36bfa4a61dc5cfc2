"""Syntax trees of Python files, each parsed and walked once per process.

Generated pages and checks of the source share them. Readers do not change them.
"""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

N = TypeVar("N", bound=ast.AST)


@cache
def tree_of(path: Path) -> ast.Module:
    """Raises `SyntaxError` with the file's path.

    Trees live as long as the process. The garbage collector would look at each of their nodes again and
    again, which takes longer than parsing: it does not look at them at all.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        gc.freeze()
        if collects:
            gc.enable()


@cache
def nodes_by_kind(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    """Every node of the file's tree in the order of `ast.walk`, by its class; contexts and operators are
    left out."""
    found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    queue: list[ast.AST] = [tree_of(path)]
    for node in queue:  # which grows
        found[node.__class__].append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                queue.extend(item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST) and value._fields:
                queue.append(value)
    return found


def nodes_of(path: Path, kind: type[N]) -> list[N]:
    """The nodes of exactly the class `kind`, for example `ast.Call`."""
    return cast("list[N]", nodes_by_kind(path).get(kind, []))
