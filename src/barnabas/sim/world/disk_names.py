"""The names on a simulated device, and the entries of each directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.sim.world.disk_pages import PagedFile

Node = PagedFile | None
"""A file, or None for a directory."""


def parent(path: str) -> str:
    return path[: path.rfind("/")] or "/"


class Names(dict[str, Node]):
    """Absolute path → what it names. A directory knows its entries, so that listing it need not go through
    all names: change single items only, or by the methods below."""

    def __init__(self) -> None:
        super().__init__({"/": None})
        self._inside: dict[str, dict[str, None]] = {}
        """Directory → the paths directly in it, in the order in which they came."""

    def __setitem__(self, path: str, node: Node) -> None:
        super().__setitem__(path, node)
        self._inside.setdefault(parent(path), {})[path] = None

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        del self._inside[parent(path)][path]

    def take(self, path: str) -> Node:
        """Remove a name that is there."""
        node = self[path]
        del self[path]
        return node

    def put_back(self, taken: Mapping[str, Node]) -> None:
        for path, node in taken.items():
            self[path] = node

    def entries(self, directory: str) -> list[str]:
        """The paths of a directory's own entries."""
        return list(self._inside.get(directory, ()))

    def below(self, directory: str) -> Iterator[str]:
        """The paths of everything in a directory and in those in it."""
        for path in self.entries(directory):
            yield path
            if path in self._inside:
                yield from self.below(path)
