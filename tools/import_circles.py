"""Finds import circles: ``python -m tools.import_circles``, part of ``make layers``.

No circle may exist at run time. An import under ``TYPE_CHECKING`` does not run; an import inside a function
does. Circles that exist for types only are listed in `TYPED` with a reason; an entry whose circle no longer
exists must leave the list.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.syntax_trees import tree_of

SOURCES = Path(__file__).parent.parent / "src"
GENERATED = ("messages", "records")

TYPED: Mapping[str, str] = {
    "barnabas.log.directories.future_logs": "part and whole: future logs of the log directories",
    "barnabas.log.partition.flush_jobs": "functions by subject over one PartitionLog",
    "barnabas.log.partition.aborted_ranges": "functions by subject over one SegmentedLog",
    "barnabas.metadata.image.broker_partitions": "the image, its columns and their replay name each other",
    "barnabas.pipeline.jobs.graph.job_steps": "the reading of a job's file and of its parts",
    "barnabas.raft.core.elections": "functions by role over one Machine",
    "barnabas.sim.liveness_checks": "checks of one run",
    "barnabas.sim.workload.administration": "clients of one workload",
    "barnabas.sim.world.background": "parts of one simulated process",
    "barnabas.sim.zookeeper.ensemble": "parts of one simulated ensemble",
}
"""The first module of each circle, in the order of names → why the circle may exist."""
HOLDS_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""Nodes below which an import may be; expressions have none."""


def module_of(path: Path) -> str:
    parts = list(path.relative_to(SOURCES).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, ast.Module]:
    """Every module that is not generated: name → its syntax tree."""
    return {
        module_of(path): tree_of(path)
        for path in sorted((SOURCES / "barnabas").rglob("*.py"))
        if path.parent.name not in GENERATED
    }


def imports(tree: ast.AST, *, typed: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, HOLDS_STATEMENTS) and (typed or not _is_for_types(node)):
            yield from imports(node, typed=typed)


def _is_for_types(node: ast.AST) -> bool:
    """Whether it is an ``if TYPE_CHECKING:``."""
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def graph(modules: Mapping[str, ast.Module], *, typed: bool) -> dict[str, list[str]]:
    """Module → the modules that it imports; with `typed` also those that it imports for types only."""
    edges = {}
    for name, tree in modules.items():
        found = set()
        for node in imports(tree, typed=typed):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif node.module and not node.level:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    found.add(full if full in modules else node.module)
        edges[name] = sorted((found & modules.keys()) - {name})
    return edges


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components of two modules or more (Tarjan), in the order of names."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10 * len(edges)))
    for name in sorted(edges):
        if name not in index:
            visit(name)
    return sorted(found)


def problems() -> list[str]:
    modules = sources()
    wrong = [
        f"imported in a circle at run time: {', '.join(circle)}"
        for circle in circles(graph(modules, typed=False))
    ]
    typed = {circle[0]: circle for circle in circles(graph(modules, typed=True))}
    for first, circle in typed.items():
        if first not in TYPED:
            wrong.append(f"a circle of types without a reason in TYPED: {', '.join(circle)}")
    wrong += [f"no circle of types begins with {first} any more" for first in TYPED.keys() - typed]
    return wrong


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) or "No import circle at run time")
    sys.exit(bool(found))
