"""The requests of a ZooKeeper session: one frozen class each, with the type of its result.

`Create`, `SetData`, `Delete` and `CheckVersion` may be operations of a `Multi`; :data:`Operation` is their
union. `layout` returns operations for a metadata record. Versions are those of `Stat`; `ANY_VERSION` matches
all. Sources: ``org.apache.zookeeper.ZooDefs``, `Op`, `data.Stat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Generic, NamedTuple, TypeVar

T_co = TypeVar("T_co", covariant=True)

ANY_VERSION = -1


class Perms(IntFlag):
    """The permissions of an ACL entry."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class ZnodeAcl(NamedTuple):
    """One entry of a znode's ACL: permissions of an identity."""

    perms: int
    scheme: str
    id: str


OPEN_ACL = (ZnodeAcl(Perms.ALL, "world", "anyone"),)
READ_ACL = (ZnodeAcl(Perms.READ, "world", "anyone"),)


class Stat(NamedTuple):
    """A znode's metadata. Of two changes the one with the greater zxid is the later."""

    czxid: int
    """Zxid of the transaction that created it; for a broker's znode this is Kafka's broker epoch."""
    mzxid: int
    """Zxid of the last change of its data."""
    ctime: int
    mtime: int
    version: int
    """Number of changes of the data."""
    cversion: int
    """Number of changes of the set of children."""
    aversion: int
    """Number of changes of the ACL."""
    ephemeral_owner: int
    """Id of the session that owns an ephemeral znode; 0 if it is persistent."""
    data_length: int
    num_children: int
    pzxid: int
    """Zxid of the last change of the set of children."""


class Created(NamedTuple):
    """Result of a `Create`: the path, with the number of a sequential znode."""

    path: str
    stat: Stat


class NodeData(NamedTuple):
    data: bytes
    stat: Stat


class ChildNames(NamedTuple):
    """The names, without the path, sorted."""

    names: tuple[str, ...]
    stat: Stat


class AclAndStat(NamedTuple):
    acl: tuple[ZnodeAcl, ...]
    stat: Stat


class Request(Generic[T_co]):
    """Base class of requests; the parameter is the type of the result."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Create(Request[Created]):
    """Make a znode, whose parent must exist.

    An ephemeral one goes with the session. A sequential one has ten digits put after its path, which count
    up under its parent. Errors: `NodeExists`, `NoNode` (parent), `NoChildrenForEphemerals`.
    """

    path: str
    data: bytes = b""
    acl: tuple[ZnodeAcl, ...] = OPEN_ACL
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData(Request[Stat]):
    """Replace the data if the version matches. Errors: `NoNode`, `BadVersion`."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete(Request[None]):
    """Remove a znode without children if the version matches. Errors: `NoNode`, `BadVersion`, `NotEmpty`."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class CheckVersion(Request[None]):
    """Only in a `Multi`: the znode exists and has this version. Errors: `NoNode`, `BadVersion`."""

    path: str
    version: int = ANY_VERSION


Operation = Create | SetData | Delete | CheckVersion
OperationResult = Created | Stat | None


@dataclass(frozen=True, slots=True)
class Multi(Request[Sequence[OperationResult]]):
    """All operations as one transaction with one zxid, or none. Each sees the effects of those before it.

    The results are those of the operations, in order. Error: `MultiFailed`. An empty one succeeds.
    """

    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class GetData(Request[NodeData]):
    """Data and `Stat`. `watch`: until the data changes or the znode is deleted; none is set on an error."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists(Request["Stat | None"]):
    """The `Stat`, or None. `watch` is set either way: until it is created, changed or deleted."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class GetChildren(Request[ChildNames]):
    """The names of the children. `watch`: until one comes or goes or the znode is deleted."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class GetAcl(Request[AclAndStat]):
    path: str


@dataclass(frozen=True, slots=True)
class SetAcl(Request[Stat]):
    """Replace the ACL if `aversion` matches."""

    path: str
    acl: tuple[ZnodeAcl, ...]
    aversion: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class SyncPath(Request[None]):
    """Answered when this session's server has applied all transactions committed before the ensemble's leader
    received the request, so that later reads see them."""

    path: str = "/"
