"""The state of an ensemble: a tree of znodes, changed by transactions with ascending zxids.

Pure. A transaction is one request, or the end of a session; it gives its results and the changes that
watches hear of, or an error, and then it has changed nothing. All servers that apply the same
transactions in the same order have the same tree. What is not here: sessions' time-outs, watches
(`watch_table`), and authentication: who asks comes with the request, as identities (`znode_acls`).

Source: ``org.apache.zookeeper.server.DataTree``, ``PrepRequestProcessor`` (which error comes first),
``DataNode.copyStat`` (what clients see of `cversion`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from barnabas.zookeeper.errors import (
    BadArguments,
    BadVersion,
    MultiFailed,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    ZooKeeperError,
)
from barnabas.zookeeper.operations import (
    ANY_VERSION,
    OPEN_ACL,
    AclAndStat,
    CheckVersion,
    ChildNames,
    Create,
    Created,
    Delete,
    Multi,
    NodeData,
    Operation,
    OperationResult,
    Perms,
    SetAcl,
    SetData,
    Stat,
    ZnodeAcl,
)
from barnabas.zookeeper.session import WatchEvent, WatchKind
from barnabas.zookeeper.znode_acls import Identity, allows, masked_acl, taken_acl

DATA_BYTES_MAX = 1 << 20
"""``jute.maxbuffer`` less what a request has besides its data."""


OWN_PATHS = frozenset(("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"))
"""Those that stay."""


class AppliedTransaction(NamedTuple):
    """The result of one applied transaction. `events` are those of every change, whether one watches or
    not; a watcher gets only those of znodes that it may read, by the ACL at the same place in `acls`."""

    result: object
    events: tuple[WatchEvent, ...] = ()
    acls: tuple[tuple[ZnodeAcl, ...], ...] = ()


class Znode:
    """One node. `creates` counts the children ever created: the next sequential number under it."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "creates",
        "ctime",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes, acl: tuple[ZnodeAcl, ...], zxid: int, ms: int, owner: int):
        self.data = data
        self.acl = acl
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = ms
        self.version = self.aversion = self.creates = 0
        self.owner = owner
        self.children: dict[str, None] = {}

    def stat(self) -> Stat:
        children = len(self.children)
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime=self.ctime,
            mtime=self.mtime,
            version=self.version,
            cversion=self.creates * 2 - children,
            aversion=self.aversion,
            ephemeral_owner=self.owner,
            data_length=len(self.data),
            num_children=children,
            pzxid=self.pzxid,
        )

    def copy(self) -> Znode:
        other = Znode.__new__(Znode)
        for name in Znode.__slots__:
            setattr(other, name, getattr(self, name))
        other.children = dict(self.children)
        return other


class ZnodeTree:
    """The tree. `zxid` is that of the last transaction applied; `schemes` are those of the ACLs that it
    takes, None takes all."""

    def __init__(self, schemes: Collection[str] | None = None) -> None:
        self.zxid = 0
        self._schemes = schemes
        self._asking: Collection[Identity] = ()
        self._nodes: dict[str, Znode] = {"/": Znode(b"", OPEN_ACL, 0, 0, 0)}
        self._owned: dict[int, dict[str, None]] = {}
        self._undo: list[Callable[[], None]] = []
        self._events: list[WatchEvent] = []
        self._acls: list[tuple[ZnodeAcl, ...]] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def copy(self) -> ZnodeTree:
        other = ZnodeTree(self._schemes)
        other.zxid = self.zxid
        other._nodes = {path: node.copy() for path, node in self._nodes.items()}
        other._owned = {session: dict(paths) for session, paths in self._owned.items()}
        return other

    # -- reading ---------------------------------------------------------------------------------

    def find(self, path: str) -> Znode | None:
        return self._nodes.get(path)

    def get(self, path: str, asking: Collection[Identity] = ()) -> NodeData:
        """Raises `NoNode`, `NoAuth`, as `children` and `get_acl` do."""
        node = self._readable(path, Perms.READ, asking)
        return NodeData(node.data, node.stat())

    def children(self, path: str, asking: Collection[Identity] = ()) -> ChildNames:
        node = self._readable(path, Perms.READ, asking)
        return ChildNames(tuple(sorted(node.children)), node.stat())

    def get_acl(self, path: str, asking: Collection[Identity] = ()) -> AclAndStat:
        node = self._readable(path, Perms.READ | Perms.ADMIN, asking)
        return AclAndStat(masked_acl(node.acl, asking), node.stat())

    def nodes(self) -> Iterator[tuple[str, Znode]]:
        """All, each after its parent."""
        return iter(self._nodes.items())

    def restore(self, zxid: int, nodes: Iterable[tuple[str, Znode]]) -> None:
        """Become what `nodes` of another tree at `zxid` says, each after its parent."""
        self.zxid = zxid
        self._nodes, self._owned = {}, {}
        for path, node in nodes:
            node.children = {}
            self._nodes[path] = node
            if path != "/":
                self._nodes[parent_of(path)].children[path.rpartition("/")[2]] = None
            if node.owner:
                self._owned.setdefault(node.owner, {})[path] = None

    def owned(self, session: int) -> list[str]:
        """The ephemeral znodes of `session`, sorted."""
        return sorted(self._owned.get(session, ()))

    # -- changing --------------------------------------------------------------------------------

    def apply(
        self,
        request: Operation | Multi | SetAcl,
        session: int,
        zxid: int,
        ms: int,
        asking: Collection[Identity] = (),
    ) -> AppliedTransaction:
        """Do what `session`, with the identities `asking`, asks as the transaction `zxid`. An error is the
        result then, and nothing but the tree's `zxid` has changed."""
        self._begin(zxid)
        self._asking = asking
        try:
            if isinstance(request, Multi):
                return self._done(self._multi(request, session, ms))
            if isinstance(request, SetAcl):
                return AppliedTransaction(self._set_acl(request), ())
            return self._done(self._operate(request, session, ms))
        except ZooKeeperError as error:
            for undo in reversed(self._undo):
                undo()
            return AppliedTransaction(error)

    def end_session(self, session: int, zxid: int) -> AppliedTransaction:
        """Remove the ephemeral znodes of `session`."""
        self._begin(zxid)
        for path in self.owned(session):
            self._remove(path)
        return self._done(None)

    def _begin(self, zxid: int) -> None:
        self.zxid, self._undo, self._events, self._acls = zxid, [], [], []

    def _done(self, result: object) -> AppliedTransaction:
        return AppliedTransaction(result, tuple(self._events), tuple(self._acls))

    def _tell(self, kind: WatchKind, path: str, node: Znode) -> None:
        self._events.append(WatchEvent(kind, path))
        self._acls.append(node.acl)

    def _multi(self, request: Multi, session: int, ms: int) -> tuple[OperationResult, ...]:
        results = []
        for index, operation in enumerate(request.operations):
            try:
                results.append(self._operate(operation, session, ms))
            except ZooKeeperError as error:
                raise MultiFailed(index, error) from error
        return tuple(results)

    def _operate(self, operation: Operation, session: int, ms: int) -> OperationResult:
        """Raises the error that ZooKeeper names first, where there are several."""
        match operation:
            case Delete():
                self._delete(operation)
                return None
            case Create():
                return self._create(operation, session, ms)
            case SetData():
                check_path(operation.path)
                return self._set_data(operation, ms)
            case CheckVersion():
                check_path(operation.path)
                self._readable(operation.path, Perms.READ, self._asking)
                self._check_version(operation.path, operation.version)
                return None

    def _create(self, request: Create, session: int, ms: int) -> Created:
        if len(request.data) > DATA_BYTES_MAX:
            raise BadArguments(request.path, "too large")
        if "\0" in request.path or "/" not in request.path:
            raise BadArguments(request.path, "no path")
        acl = taken_acl(request.acl, request.path, self._asking, self._schemes)
        above = parent_of(request.path)
        parent = self._nodes.get(above)
        if parent is None:
            raise NoNode(request.path)
        self._check_allowed(parent, Perms.CREATE, request.path)
        path = request.path
        if request.sequential:
            path = f"{path}{parent.creates:010d}"
        check_path(path)
        if path in self._nodes:
            raise NodeExists(path)
        if parent.owner:
            raise NoChildrenForEphemerals(path)
        node = Znode(request.data, acl, self.zxid, ms, session if request.ephemeral else 0)
        before = parent.creates, parent.pzxid
        self._nodes[path] = node
        name = path.rpartition("/")[2]
        parent.children[name] = None
        parent.creates += 1
        parent.pzxid = self.zxid
        if node.owner:
            self._owned.setdefault(node.owner, {})[path] = None

        def undo() -> None:
            del self._nodes[path], parent.children[name]
            parent.creates, parent.pzxid = before
            self._disown(node.owner, path)

        self._undo.append(undo)
        self._tell(WatchKind.CREATED, path, node)
        self._tell(WatchKind.CHILDREN, above, parent)
        return Created(path, node.stat())

    def _set_data(self, request: SetData, ms: int) -> Stat:
        if len(request.data) > DATA_BYTES_MAX:
            raise BadArguments(request.path, "too large")
        node = self._node(request.path)
        self._check_allowed(node, Perms.WRITE, request.path)
        self._check_version(request.path, request.version)
        before = node.data, node.version, node.mzxid, node.mtime

        def undo() -> None:
            node.data, node.version, node.mzxid, node.mtime = before

        self._undo.append(undo)
        node.data = request.data
        node.version += 1
        node.mzxid, node.mtime = self.zxid, ms
        self._tell(WatchKind.CHANGED, request.path, node)
        return node.stat()

    def _delete(self, request: Delete) -> None:
        if request.path in OWN_PATHS or "\0" in request.path or "/" not in request.path:
            raise BadArguments(request.path, "it cannot be deleted")
        parent = self._nodes.get(parent_of(request.path))
        if parent is None:
            raise NoNode(request.path)
        self._check_allowed(parent, Perms.DELETE, request.path)
        node = self._node(request.path)
        self._check_version(request.path, request.version)
        if node.children:
            raise NotEmpty(request.path)
        self._remove(request.path)

    def _remove(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        above = above or "/"
        parent, node = self._nodes[above], self._nodes[path]
        before = parent.pzxid, dict(parent.children)

        def undo() -> None:
            self._nodes[path] = node
            parent.pzxid, parent.children = before
            if node.owner:
                self._owned.setdefault(node.owner, {})[path] = None

        self._undo.append(undo)
        del self._nodes[path], parent.children[name]
        parent.pzxid = self.zxid
        self._disown(node.owner, path)
        self._tell(WatchKind.DELETED, path, node)
        self._tell(WatchKind.CHILDREN, above, parent)

    def _set_acl(self, request: SetAcl) -> Stat:
        check_path(request.path)
        acl = taken_acl(request.acl, request.path, self._asking, self._schemes)
        node = self._node(request.path)
        self._check_allowed(node, Perms.ADMIN, request.path)
        if request.aversion not in (ANY_VERSION, node.aversion):
            raise BadVersion(request.path)
        node.acl = acl
        node.aversion += 1
        return node.stat()

    def _check_version(self, path: str, version: int) -> None:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)

    def _disown(self, owner: int, path: str) -> None:
        paths = self._owned.get(owner)
        if paths is not None:
            paths.pop(path, None)
            if not paths:
                del self._owned[owner]

    def _readable(self, path: str, wanted: int, asking: Collection[Identity]) -> Znode:
        node = self._node(path)
        if not allows(node.acl, wanted, asking):
            raise NoAuth(path)
        return node

    def _check_allowed(self, node: Znode, wanted: int, path: str) -> None:
        if not allows(node.acl, wanted, self._asking):
            raise NoAuth(path)

    def _node(self, path: str) -> Znode:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node


def parent_of(path: str) -> str:
    """The path above; of the root, the root."""
    return path.rpartition("/")[0] or "/"


_NO_CHARACTER = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""Source: ``PathUtils.validatePath``."""


def check_path(path: str) -> None:
    """Raises `BadArguments` where `path` is none that ZooKeeper takes."""
    is_one = path == "/" or (
        path.startswith("/")
        and not path.endswith("/")
        and not _NO_CHARACTER.search(path)
        and all(part not in ("", ".", "..") for part in path[1:].split("/"))
    )
    if not is_one:
        raise BadArguments(path, "no path")
