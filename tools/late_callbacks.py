"""Finds functions that one object gives to another after its construction.

``python -m tools.late_callbacks`` prints them; ``make tidy`` runs the same.

A constructor names everything that an object calls: a reader follows a call to the one place where it leads,
and no object is half made until a second object completes it. An assignment to a field of another object
counts where its value is a lambda, a `partial`, a method of the class that assigns it or a function in scope,
and where the field is a callback by its name (`on_…`) or by its declaration as callable in some class.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from tools.import_circles import sources

ALLOWED: Mapping[str, str] = {}
"""The assignments that remain, as `module: target`, and why."""

CALLABLE = "Callable"


def callable_fields(modules: Mapping[str, ast.Module]) -> frozenset[str]:
    """Fields that are declared as callable, by `Callable` or by an alias of it, and nowhere otherwise."""
    annotated = [
        node
        for tree in modules.values()
        for node in _statements(tree)
        if isinstance(node, ast.AnnAssign)
    ]
    aliases = {
        ast.unparse(node.target)
        for node in annotated
        if node.value is not None and ast.unparse(node.value).startswith(CALLABLE)
    }
    of_callable = re.compile(rf"(?:{'|'.join(sorted({*aliases, CALLABLE}))})\b")
    kinds: dict[str, set[bool]] = {}
    for node in annotated:
        name = ast.unparse(node.target).removeprefix("self.")
        is_callable = of_callable.match(ast.unparse(node.annotation)) is not None
        kinds.setdefault(name, set()).add(is_callable)
    return frozenset(name for name, kind in kinds.items() if kind == {True})


def late_callbacks(modules: Mapping[str, ast.Module]) -> Iterator[tuple[str, int, str]]:
    """Module, line and target of each function that is set on another object."""
    fields = callable_fields(modules)
    for name, tree in modules.items():
        functions = frozenset(_functions(tree.body))
        for line, target in _in_scope(tree, functions, frozenset(), fields):
            yield name, line, target


def _in_scope(
    scope: ast.AST, functions: frozenset[str], methods: frozenset[str], fields: frozenset[str]
) -> Iterator[tuple[int, str]]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            is_function = _is_function(node.value, functions, methods)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute) and not _is_own(target):
                    is_callback = target.attr in fields or target.attr.startswith("on_")
                    if is_function or is_callback:
                        yield node.lineno, ast.unparse(target)
        elif isinstance(node, ast.ClassDef):
            yield from _in_scope(node, functions, frozenset(_functions(node.body)), fields)
        elif isinstance(node, ast.FunctionDef):
            inner = (functions - _bound(node)) | frozenset(_functions(_statements(node)))
            yield from _in_scope(node, inner, methods, fields)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _in_scope(node, functions, methods, fields)


def _statements(scope: ast.AST) -> Iterator[ast.AST]:
    """Every statement below `scope`; expressions are not looked through, which takes most of the time."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from _statements(node)


def _is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id in ("self", "cls")


def _functions(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of the functions among `nodes`, but for properties, whose names are values."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if not any(name.endswith(("property", ".setter")) for name in decorators):
                yield node.name


def _bound(function: ast.FunctionDef) -> frozenset[str]:
    """The parameters of `function`, and the names that it assigns."""
    found = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    for node in _statements(function):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if target is not None:
                found |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
    return frozenset(found)


def _is_function(value: ast.expr, functions: frozenset[str], methods: frozenset[str]) -> bool:
    match value:
        case ast.Lambda() | ast.Call(func=ast.Name(id="partial")):
            return True
        case ast.Name(id=name):
            return name in functions
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name in methods
        case ast.IfExp(body=one, orelse=other):
            return any(_is_function(branch, functions, methods) for branch in (one, other))
    return False


def faults(modules: Mapping[str, ast.Module], allowed: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each assignment that is not allowed, and for each entry of `allowed` without one."""
    found = {f"{name}: {target}": line for name, line, target in late_callbacks(modules)}
    for what, line in found.items():
        if what not in allowed:
            yield f"{what} (line {line}) is set after construction: make it an argument"
    for what in allowed:
        if what not in found:
            yield f"{what} is gone: take it from the list"


if __name__ == "__main__":
    wrong = list(faults(sources(), ALLOWED))
    print("\n".join(wrong) or "Constructors name every function that an object calls")
    sys.exit(bool(wrong))
