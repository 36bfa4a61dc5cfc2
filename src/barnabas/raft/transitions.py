"""The transitions between states, read from the code, for the docs and for the test of the docs.

A transition is the return type of a ``to_...`` method of a state's class; states change in no other way.
"""

from __future__ import annotations

import inspect
from typing import get_args, get_type_hints

from barnabas.raft.core import states

STATES: tuple[type, ...] = get_args(states.State)


def moves() -> dict[str, list[str]]:
    """The successors of each state, both in the order of `STATES`."""
    order = [state.__name__ for state in STATES]
    found: dict[str, list[str]] = {}
    for state in STATES:
        targets = set()
        for name, method in inspect.getmembers(state, inspect.isfunction):
            if name.startswith(("to_", "at_epoch", "searching")):
                result = get_type_hints(method, vars(states))["return"]
                targets |= {target.__name__ for target in get_args(result) or (result,)}
        found[state.__name__] = sorted(targets, key=order.index)
    return found


def mermaid() -> str:
    """The transitions as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for state, targets in moves().items():
        lines += [f"    {state} --> {target}" for target in targets]
    return "\n".join(lines) + "\n"
