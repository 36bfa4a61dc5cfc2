"""Fields that hold a component, and whose name shares no word with the component's class.

A component is an instance of a class of ours with an ``__init__`` of its own: no message, value, error or
Protocol, whose field says the role (``leader: NodeId``). Looked at are annotated fields, what ``__init__``
assigns to a field, and its parameters. `ROLES` and `CONTAINERS` say what may have another name.

``python -m tools.field_names`` lists them; ``tests/test_prose.py`` finds none.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.import_circles import GENERATED, SOURCES
from tools.syntax_trees import nodes_of

VALUES = frozenset({"NamedTuple", "Protocol", "Enum", "IntEnum", "Message", "TypedDict"})
STEM = 4
"""Words with the same first letters are the same: `directory` and `directories`, `queue` and `queued`."""
CONTAINERS = frozenset({"TimelineMap", "Window", "TaskOutcome", "Event"})
"""Classes whose objects are named after their content, as a list is."""
ROLES: dict[str, frozenset[str]] = {
    "BrokerLifecycle": frozenset({"quorum"}),  # beside that of ZooKeeper mode
    "Channels": frozenset({"to_brokers", "to_controllers"}),
    "Consumer": frozenset({"inner"}),  # public
    "ControllerContext": frozenset({"cluster"}),
    "End": frozenset({"near", "far", "other"}),
    "EnsembleServer": frozenset({"leader"}),
    "JobsAtOnce": frozenset({"background"}),  # a port
    "PartitionLog": frozenset({"source", "copy"}),
    "Producer": frozenset({"inner"}),  # public
    "QuorumController": frozenset({"decider"}),  # of a cluster without a quorum
    "RaftNode": frozenset({"quorum", "replica"}),  # one is public
    "RequestContext": frozenset({"ctx"}),
    "Side": frozenset({"leader", "follower"}),
    "SimDisk": frozenset({"device"}),
    "StructuredLog": frozenset({"journal"}),  # public
}
"""By class the names that say the role of its objects, or that modules of the public API have."""


class FieldName(NamedTuple):
    """A field or parameter of the class `owner` that holds a `held`."""

    path: Path
    line: int
    owner: str
    name: str
    held: str

    def __str__(self) -> str:
        where = f"{self.path.relative_to(SOURCES.parent)}:{self.line}"
        return f"{where} {self.owner}.{self.name} is a {self.held}"


def misnamed() -> list[FieldName]:
    """The fields that are neither named after the class of what they hold nor allowed."""
    paths = [
        path
        for path in sorted((SOURCES / "barnabas").rglob("*.py"))
        if not set(path.parent.parts) & set(GENERATED)
    ]
    classes = (one for path in paths for one in nodes_of(path, ast.ClassDef))
    components = {one.name for one in classes if _is_component(one)} - CONTAINERS
    return [
        field
        for path in paths
        for owner in nodes_of(path, ast.ClassDef)
        for field in _fields(path, owner)
        if field.held in components
        and not _are_kin(field.name, field.held)
        and field.name.strip("_") not in ROLES.get(field.held, ())
    ]


def _is_component(node: ast.ClassDef) -> bool:
    bases = [_last_name(base) or "" for base in node.bases]
    is_value = any("dataclass" in ast.unparse(one) for one in node.decorator_list) or any(
        base in VALUES or base.endswith(("Error", "Exception")) for base in bases
    )
    return not is_value and _constructor(node) is not None


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    found = (one for one in node.body if isinstance(one, ast.FunctionDef))
    return next((one for one in found if one.name == "__init__"), None)


def _fields(path: Path, owner: ast.ClassDef) -> Iterator[FieldName]:
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield from _field(path, owner, node, node.target.id, node.annotation)
    constructor = _constructor(owner)
    if constructor is None:
        return
    for argument in (*constructor.args.args, *constructor.args.kwonlyargs):
        if argument.annotation is not None:
            yield from _field(path, owner, argument, argument.arg, argument.annotation)
    for inner in ast.walk(constructor):
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Attribute):
            yield from _field(path, owner, inner, inner.target.attr, inner.annotation)
        elif isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Call):
            for target in inner.targets:
                if isinstance(target, ast.Attribute):
                    yield from _field(path, owner, inner, target.attr, inner.value.func)


def _field(
    path: Path, owner: ast.ClassDef, node: ast.stmt | ast.arg, name: str, held: ast.expr
) -> Iterator[FieldName]:
    found = _last_name(held)
    if found is not None:
        yield FieldName(path, node.lineno, owner.name, name, found)


def _last_name(node: ast.expr) -> str | None:
    """The class in `Class`, `module.Class`, `Class[...]` or `Class | None`."""
    match node:
        case ast.BinOp(left=left, right=ast.Constant(value=None)):
            return _last_name(left)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _last_name(value)
    return None


def _words(name: str) -> set[str]:
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]+|[a-z0-9]+", name.strip("_"))
    return {word.lower() for word in found}


def _are_kin(name: str, held: str) -> bool:
    """Whether a word of both is the same, or begins with the same letters."""
    mine, theirs = _words(name), _words(held)
    flat = "".join(re.findall("[a-z0-9]+", held.lower()))
    return name.strip("_") == flat or any(
        one.rstrip("s") == other.rstrip("s") or (len(one) >= STEM and one[:STEM] == other[:STEM])
        for one in mine
        for other in theirs
    )


def main() -> int:
    found = misnamed()
    print("\n".join(map(str, found)) or "Every field is named after what it holds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
