"""The answers that a server gives by itself: reads, and what concerns watches.

A watch is set together with the read that asks for it, so no change can come between.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

from barnabas.zookeeper.errors import BadArguments, NoWatcher, Unimplemented, ZooKeeperError
from barnabas.zookeeper.operations import Exists, GetAcl, GetChildren, GetData, Request
from barnabas.zookeeper.server.requests import (
    AddWatch,
    CountChildren,
    GetEphemerals,
    MultiRead,
    Refused,
    Unwatch,
    WhoAmI,
    missing_as_error,
)
from barnabas.zookeeper.watch_table import WatchTable
from barnabas.zookeeper.znode_acls import Identity
from barnabas.zookeeper.znode_tree import ZnodeTree

W = TypeVar("W", bound=Hashable)


def read(
    tree: ZnodeTree,
    watches: WatchTable[W],
    watcher: W,
    session: int,
    identities: tuple[Identity, ...],
    request: Request[Any],
) -> Any:
    """The result or the error."""
    try:
        match request:
            case Refused(error):
                return error
            case MultiRead(reads):
                return [read(tree, watches, watcher, session, identities, one) for one in reads]
            case GetEphemerals(path):
                return tuple(owned for owned in tree.owned(session) if owned.startswith(path))
            case WhoAmI():
                return tuple((scheme, id.partition(":")[0]) for scheme, id in identities)
            case AddWatch() | Unwatch():
                return _change_watch(watches, watcher, request)
        return missing_as_error(request, _read(tree, watches, watcher, identities, request))
    except ZooKeeperError as error:
        return error


def _read(
    tree: ZnodeTree,
    watches: WatchTable[W],
    watcher: W,
    identities: tuple[Identity, ...],
    request: Request[Any],
) -> Any:
    match request:
        case Exists(path, watch):
            if "\0" in path:
                raise BadArguments(path)
            stat = None if tree.find(path) is None else tree.get(path, identities).stat
            if watch:
                watches.watch_data(path, watcher)
            return stat
        case GetData(path, watch):
            data = tree.get(path, identities)
            if watch:
                watches.watch_data(path, watcher)
            return data
        case GetChildren(path, watch):
            names = tree.children(path, identities)
            if watch:
                watches.watch_children(path, watcher)
            return names
        case GetAcl(path):
            return tree.get_acl(path, identities)
        case CountChildren(path):
            tree.children(path, identities)
            below = path if path == "/" else f"{path}/"
            return sum(one.startswith(below) and one != path for one, _ in tree.nodes())
    return Unimplemented("", type(request).__name__)


def _change_watch(watches: WatchTable[W], watcher: W, request: AddWatch | Unwatch) -> None:
    if isinstance(request, AddWatch):
        watches.watch_always(request.path, watcher, recursive=request.recursive)
        return
    change = watches.watches if request.check_only else watches.unwatch
    if not change(request.path, watcher, request.kind):
        raise NoWatcher(request.path)
