"""How a mutant is planted and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from barnabas.sim.run import Plan

OPEN = Plan()
Patch = tuple[Any, str, Any]
"""(module, class or dictionary; name of what is replaced; by what)."""


@dataclass(frozen=True)
class Mutant:
    """One bug. `patches` is called when it is planted, for what it wraps is looked up then."""

    name: str
    bug: str
    """In one line."""
    patches: Callable[[], list[Patch]]
    plan: Plan = OPEN
    """Of the seeds that shall find it."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, replacement in self.patches():
                if isinstance(owner, dict):
                    stack.enter_context(patch.dict(owner, {_key(owner, name): replacement}))
                else:
                    stack.enter_context(patch.object(owner, name, replacement))
            yield


def _key(table: dict[Any, Any], name: str) -> Any:
    """The class of that name in a table of handlers."""
    return next(key for key in table if getattr(key, "__name__", key) == name)
