"""Syntax trees of Python files, each parsed once per process.

Generated pages and checks of the source share them. Readers do not change them.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """Raises `SyntaxError` with the file's path."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
