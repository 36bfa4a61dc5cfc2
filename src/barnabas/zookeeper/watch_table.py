"""One-shot watches on paths, and which of them an event fires.

Pure. `W` is who watches. A data watch is set by `GetData`, and by `Exists` of a znode that is there or
not; a child watch by `GetChildren`. An event fires each watcher once, though it may watch both the data
and the children of a znode that is deleted.

Source: `org.apache.zookeeper.server.watch.WatchManager`, `DataTree.setWatches`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from barnabas.zookeeper.session import WatchEvent, WatchKind
from barnabas.zookeeper.znode_tree import ZnodeTree

W = TypeVar("W", bound=Hashable)


class WatchedPaths(NamedTuple):
    """What one client watches, sorted: what it hands to the server to which it comes back."""

    data: tuple[str, ...] = ()
    """Znodes that were there when the watch was set."""
    exists: tuple[str, ...] = ()
    """Znodes that were not there."""
    children: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.data or self.exists or self.children)


class WatchTable(Generic[W]):
    """The watches of one server."""

    def __init__(self) -> None:
        self._data: dict[str, dict[W, None]] = {}
        self._children: dict[str, dict[W, None]] = {}

    def watch_data(self, path: str, watcher: W) -> None:
        self._data.setdefault(path, {})[watcher] = None

    def watch_children(self, path: str, watcher: W) -> None:
        self._children.setdefault(path, {})[watcher] = None

    def fire(self, event: WatchEvent) -> list[W]:
        """The watchers that get `event`, in the order in which they came. Their watches are gone."""
        if event.kind is WatchKind.CHILDREN:
            return list(self._children.pop(event.path, ()))
        fired = self._data.pop(event.path, {})
        if event.kind is WatchKind.DELETED:
            fired |= self._children.pop(event.path, {})
        return list(fired)

    def forget(self, watcher: W) -> None:
        """The watcher is gone."""
        for table in (self._data, self._children):
            for path in [path for path, watchers in table.items() if watcher in watchers]:
                del table[path][watcher]
                if not table[path]:
                    del table[path]

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


class ClientWatches:
    """What a client knows of its own watches: whether an event is one it waits for, and what to resume."""

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
