"""Watches on paths, and which of them an event fires.

Pure. `W` is who watches. A data watch is set by `GetData`, and by `Exists` of a znode that is there or not; a
child watch by `GetChildren`. An event fires each watcher once, though it may watch both the data and the
children of a znode that is deleted. These watches are one-shot. A persistent watch stays when it has fired:
of one path, data and children; or, recursive, of a path and all below it, without the changes of children.

Source: ``org.apache.zookeeper.server.watch.WatchManager``, ``DataTree.setWatches``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from barnabas.zookeeper.session import WatchEvent, WatchKind
from barnabas.zookeeper.znode_tree import ZnodeTree

W = TypeVar("W", bound=Hashable)


class WatchedPaths(NamedTuple):
    """The paths that one client watches, sorted: what it hands to the server to which it comes back."""

    data: tuple[str, ...] = ()
    """Znodes that were there when the watch was set."""
    exists: tuple[str, ...] = ()
    """Znodes that were not there."""
    children: tuple[str, ...] = ()
    persistent: tuple[str, ...] = ()
    recursive: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self)


class WatchTable(Generic[W]):
    """The watches of one server."""

    def __init__(self) -> None:
        self._data: dict[str, dict[W, None]] = {}
        self._children: dict[str, dict[W, None]] = {}
        self._persistent: dict[str, dict[W, None]] = {}
        self._recursive: dict[str, dict[W, None]] = {}
        self._paths: dict[W, dict[str, None]] = {}
        """The paths that each watcher watches, or has watched."""

    def __len__(self) -> int:
        return sum(len(watchers) for table in self._tables() for watchers in table.values())

    def _tables(self) -> tuple[dict[str, dict[W, None]], ...]:
        return self._data, self._children, self._persistent, self._recursive

    def watch_data(self, path: str, watcher: W) -> None:
        self._add(self._data, path, watcher)

    def watch_children(self, path: str, watcher: W) -> None:
        self._add(self._children, path, watcher)

    def watch_always(self, path: str, watcher: W, *, recursive: bool) -> None:
        """A persistent watch, in the place of one of the other kind."""
        one, other = self._persistent, self._recursive
        if recursive:
            one, other = other, one
        _remove(other, path, watcher)
        self._add(one, path, watcher)

    def _add(self, table: dict[str, dict[W, None]], path: str, watcher: W) -> None:
        table.setdefault(path, {})[watcher] = None
        self._paths.setdefault(watcher, {})[path] = None

    def watches(self, path: str, watcher: W, kind: int) -> bool:
        """Whether `watcher` has a watch of `kind` at `path`: 1 of children, 2 of data, 3 any."""
        return any(watcher in table.get(path, ()) for table in self._of_kind(kind))

    def unwatch(self, path: str, watcher: W, kind: int) -> bool:
        """Remove what `watches` finds; False where there was none."""
        removed = [_remove(table, path, watcher) for table in self._of_kind(kind)]
        return any(removed)

    def _of_kind(self, kind: int) -> tuple[dict[str, dict[W, None]], ...]:
        one_shot = {1: (self._children,), 2: (self._data,)}
        return one_shot.get(kind) or self._tables()

    def fire(self, event: WatchEvent) -> list[W]:
        """The watchers that get `event`, in the order in which they came. Their one-shot watches are gone."""
        if event.kind is WatchKind.CHILDREN:
            fired = self._children.pop(event.path, {})
        else:
            fired = self._data.pop(event.path, {})
            if event.kind is WatchKind.DELETED:
                fired |= self._children.pop(event.path, {})
        self._forget_path(event.path, fired)
        if self._persistent:
            fired |= self._persistent.get(event.path, {})
        if self._recursive and event.kind is not WatchKind.CHILDREN:
            path = event.path
            fired |= self._recursive.get(path, {})
            while path != "/":
                path = path.rpartition("/")[0] or "/"
                fired |= self._recursive.get(path, {})
        return list(fired)

    def _forget_path(self, path: str, watchers: Iterable[W]) -> None:
        """One-shot watches of `path` have fired."""
        tables = self._tables()
        for watcher in watchers:
            if not any(watcher in table.get(path, ()) for table in tables):
                self._paths[watcher].pop(path, None)

    def forget(self, watcher: W) -> None:
        """The watcher is gone."""
        for path in self._paths.pop(watcher, ()):
            for table in self._tables():
                _remove(table, path, watcher)

    def resume(
        self, watcher: W, watched: WatchedPaths, tree: ZnodeTree, since_zxid: int
    ) -> Iterable[WatchEvent]:
        """Watch for a client that comes from another server, where it saw `since_zxid`. The events are of
        what has changed since; those watches are not set."""
        for path in watched.data:
            node = tree.find(path)
            if node is None:
                yield WatchEvent(WatchKind.DELETED, path)
            elif node.mzxid > since_zxid:
                yield WatchEvent(WatchKind.CHANGED, path)
            else:
                self.watch_data(path, watcher)
        for path in watched.exists:
            if tree.find(path) is not None:
                yield WatchEvent(WatchKind.CREATED, path)
            else:
                self.watch_data(path, watcher)
        for path in watched.children:
            node = tree.find(path)
            if node is None:
                yield WatchEvent(WatchKind.DELETED, path)
            elif node.pzxid > since_zxid:
                yield WatchEvent(WatchKind.CHILDREN, path)
            else:
                self.watch_children(path, watcher)
        for path in watched.persistent:
            self.watch_always(path, watcher, recursive=False)
        for path in watched.recursive:
            self.watch_always(path, watcher, recursive=True)


def _remove(table: dict[str, dict[W, None]], path: str, watcher: W) -> bool:
    """Whether it was there."""
    watchers = table.get(path, {})
    if watcher not in watchers:
        return False
    del watchers[watcher]
    if not watchers:
        del table[path]
    return True


class ClientWatches:
    """The knowledge that a client has of its own watches: whether an event is one it waits for, and what
    to resume."""

    def __init__(self) -> None:
        self._data: dict[str, bool] = {}
        """Whether the znode was there."""
        self._children: dict[str, None] = {}

    def on_data_watch(self, path: str, is_there: bool) -> None:
        self._data[path] = is_there

    def on_children_watch(self, path: str) -> None:
        self._children[path] = None

    def on_event(self, event: WatchEvent) -> bool:
        """The event's watches are gone. False where there was none: it is not for the owner."""
        if event.kind is WatchKind.CHILDREN:
            return self._children.pop(event.path, 0) is None
        found = self._data.pop(event.path, None) is not None
        if event.kind is WatchKind.DELETED:
            found = (self._children.pop(event.path, 0) is None) or found
        return found

    def watched(self) -> WatchedPaths:
        return WatchedPaths(
            data=tuple(sorted(path for path, is_there in self._data.items() if is_there)),
            exists=tuple(sorted(path for path, is_there in self._data.items() if not is_there)),
            children=tuple(sorted(self._children)),
        )

    def clear(self) -> None:
        self._data.clear()
        self._children.clear()
