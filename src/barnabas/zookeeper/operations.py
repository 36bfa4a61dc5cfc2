"""What a session is asked: one frozen class per request, each with the type of its result.

`Create`, `SetData`, `Delete` and `CheckVersion` may be operations of a `Multi`; :data:`Operation` is their
union, and what `layout` gives for a metadata record. Versions are those of `Stat`; `ANY_VERSION` matches
each.
Sources: `org.apache.zookeeper.ZooDefs`, `Op`, `data.Stat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Generic, NamedTuple, TypeVar

T_co = TypeVar("T_co", covariant=True)

ANY_VERSION = -1


class Perms(IntFlag):
    """What an ACL entry allows."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class ZnodeAcl(NamedTuple):
    """Who may do what with one znode."""

    perms: int
    scheme: str
    id: str


OPEN_ACL = (ZnodeAcl(Perms.ALL, "world", "anyone"),)
READ_ACL = (ZnodeAcl(Perms.READ, "world", "anyone"),)


class Stat(NamedTuple):
    """A znode's metadata. Of two changes the one with the greater zxid is the later."""

    czxid: int
    """Of the transaction that created it: Kafka's broker epoch, of a broker's znode."""
    mzxid: int
    """Of the last change of its data."""
    ctime: int
    mtime: int
    version: int
    """Changes of the data."""
    cversion: int
    """Changes of the set of children."""
    aversion: int
    """Changes of the ACL."""
    ephemeral_owner: int
    """The session with which it goes; 0 where it is persistent."""
    data_length: int
    num_children: int
    pzxid: int
    """Of the last change of the set of children."""


class Created(NamedTuple):
    """Of a `Create`: the path, with its number where it is sequential."""

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
    """Base of all; the parameter is the type of the result."""

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
    """Replace the data where the version holds. Errors: `NoNode`, `BadVersion`."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete(Request[None]):
    """Remove a znode without children where the version holds. Errors: `NoNode`, `BadVersion`, `NotEmpty`."""

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
    """Replace the ACL where `aversion` holds."""

    path: str
    acl: tuple[ZnodeAcl, ...]
    aversion: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class SyncPath(Request[None]):
    """Answered when this session's server has everything that was committed before the ensemble's leader
    took the request up: reads after it see that."""

    path: str = "/"
