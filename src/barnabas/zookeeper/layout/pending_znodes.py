"""The znodes that are there, those that are wanted, and the operations between the two.

Topics' configurations come before topics, parents before children, deletions children first. What was taken
counts as done: an owner whose transaction fails loads the znodes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from barnabas.zookeeper.layout.znode_table import ZnodeValue
from barnabas.zookeeper.operations import Create, Delete, Operation, SetData
from barnabas.zookeeper.znode_tree import parent_of


class PendingZnodes:
    """Data by path."""

    def __init__(self) -> None:
        self.written: dict[str, bytes] = {}
        """Every znode that is there."""
        self.wanted: dict[str, bytes | None] = {}
        """The znodes that have changed; None: no znode."""
        self._notifications: dict[str, Create] = {}
        """The notifications, one for each thing that has changed."""

    def write(self, value: ZnodeValue) -> None:
        self.wanted[value.path] = value.encode()

    def notify(self, value: ZnodeValue) -> None:
        """Tell the brokers by a sequential znode."""
        data = value.encode()
        self._notifications[f"{value.path} {data!r}"] = Create(value.path, data, sequential=True)

    def take_operations(self, *, notify: bool) -> list[Operation]:
        operations = [*self._writes(), *self._deletions()]
        if notify:
            for change in self._notifications.values():
                operations += (*self._parents(change.path), change)
        self.wanted, self._notifications = {}, {}
        return operations

    def _writes(self) -> Iterator[Operation]:
        wanted = {path: data for path, data in self.wanted.items() if data is not None}
        for path in sorted(wanted, key=_order):
            yield from self._parents(path)
            if path not in self.written:
                yield Create(path, wanted[path])
            elif self.written[path] != wanted[path]:
                yield SetData(path, wanted[path])
            self.written[path] = wanted[path]

    def _deletions(self) -> Iterator[Operation]:
        """A znode that a wanted one is below stays: a topic was deleted and created again under its name."""
        needed = {
            ancestor
            for path, data in self.wanted.items()
            if data is not None
            for ancestor in ancestors_of(path)
        }
        gone = [p for p, data in self.wanted.items() if data is None and p not in needed]
        for path in sorted(gone, key=_order, reverse=True):
            if self.written.pop(path, None) is not None:
                yield Delete(path)

    def _parents(self, path: str) -> Iterator[Operation]:
        missing = list(takewhile(lambda one: one not in self.written, ancestors_of(path)))
        for path in reversed(missing):
            self.written[path] = b""
            yield Create(path)


def ancestors_of(path: str) -> Iterator[str]:
    """From its parent upwards, without the root."""
    while (path := parent_of(path)) != "/":
        yield path


def _order(path: str) -> tuple[bool, str]:
    return (not path.startswith("/config/"), path)
