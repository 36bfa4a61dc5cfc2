"""Finds circles of imports and folders that import each other: ``python -m tools.folder_pairs``.

A test of ``make tidy`` asks it as well, where the sources are parsed already. The circles are those of
:mod:`tools.import_circles`.

Two sub-folders of one package may depend on each other in one direction only, imports for types included. A
package's own modules count as a folder named after the package, but for its ``__init__``, which is a face.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from tools.import_circles import graph, problems, sources


def folder_of(module: str, packages: frozenset[str]) -> str:
    """The package that holds `module`: ``barnabas.raft.core.states`` is in ``barnabas.raft.core``."""
    return module if module in packages else module.rpartition(".")[0]


def crossings(edges: Mapping[str, list[str]]) -> dict[tuple[str, str], list[str]]:
    """Folder and folder → the imports that lead from the first into the second, within one top package.

    A folder and the folders inside it are no pair: a part may name its whole.
    """
    packages = frozenset(name.rpartition(".")[0] for name in edges)
    found: dict[tuple[str, str], list[str]] = {}
    for name, others in edges.items():
        source = folder_of(name, packages)
        for other in others:
            target = folder_of(other, packages)
            top = source.split(".")[:2]
            nested = f"{target}.".startswith(f"{source}.") or f"{source}.".startswith(f"{target}.")
            if top == target.split(".")[:2] and not nested:
                found.setdefault((source, target), []).append(f"{name} -> {other}")
    return found


def pairs() -> Iterator[str]:
    """A sentence with every import of the weaker direction for each pair of folders."""
    found = crossings(graph(sources(), typed=True))
    for (one, other), imports in sorted(found.items()):
        back = found.get((other, one))
        if back and (len(imports), one) <= (len(back), other):
            yield f"{one} and {other} import each other: {'; '.join(imports)}"


def wrong_imports() -> list[str]:
    """A sentence for each circle at run time and each pair of folders; none where all is well."""
    return [*problems(), *pairs()]


if __name__ == "__main__":
    wrong = wrong_imports()
    print("\n".join(wrong) or "No import circle at run time, and no two folders import each other")
    sys.exit(bool(wrong))
