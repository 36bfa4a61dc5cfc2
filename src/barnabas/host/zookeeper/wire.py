"""Requests in ZooKeeper's serialization (jute) that kazoo's own classes do not cover.

kazoo sends an object with `type` and `serialize()`, and decodes the answer with `deserialize()`. This module
adds reads whose watches kazoo does not manage, a multi whose creates return their `Stat` and whose failure
names the failed operation, and the request that sets watches again on another server.

Source: `zookeeper.jute`, ``org.apache.zookeeper.MultiOperationRecord``, ``MultiResponse``, `SetWatches`.
"""

from __future__ import annotations

import struct
from typing import Any

from kazoo.protocol import serialization as jute
from kazoo.security import ACL, Id

from barnabas.zookeeper.errors import (
    MultiFailed,
    RuntimeInconsistency,
    ZooKeeperError,
    error_of,
)
from barnabas.zookeeper.operations import (
    AclAndStat,
    CheckVersion,
    ChildNames,
    Create,
    Created,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    NodeData,
    Operation,
    Request,
    SetAcl,
    SetData,
    Stat,
    SyncPath,
    ZnodeAcl,
)
from barnabas.zookeeper.watch_table import WatchedPaths

EPHEMERAL, SEQUENTIAL = 1, 2
ROLLED_BACK = 0
"""The error code of an operation that did not fail itself, in a multi that failed."""
_INT = struct.Struct("!i")
_LONG = struct.Struct("!q")


class _Read:
    """A read with a watch that this package manages, not kazoo."""

    type = 0

    def __init__(self, path: str, watch: bool) -> None:
        self.path = path
        self._watch = watch

    def serialize(self) -> bytes:
        return bytes(jute.write_string(self.path)) + bytes([self._watch])


class ReadData(_Read):
    type = jute.GetData.type
    deserialize = staticmethod(jute.GetData.deserialize)


class ReadStat(_Read):
    type = jute.Exists.type
    deserialize = staticmethod(jute.Exists.deserialize)


class ReadChildren(_Read):
    type = jute.GetChildren2.type
    deserialize = staticmethod(jute.GetChildren2.deserialize)


class Resume:
    """`SetWatches`: sets a session's watches again on the server to which it reconnects."""

    type = 101

    def __init__(self, watched: WatchedPaths, since_zxid: int) -> None:
        self._watched = watched
        self._since_zxid = since_zxid

    def serialize(self) -> bytes:
        parts = [_LONG.pack(self._since_zxid)]
        for paths in self._watched:
            parts.append(_INT.pack(len(paths)))
            parts += [bytes(jute.write_string(path)) for path in paths]
        return b"".join(parts)

    @staticmethod
    def deserialize(data: bytes, offset: int) -> None:
        return None


class MultiRequest:
    """A multi-operation. Its answer is the list of results, or a list with one `MultiFailed`."""

    type = jute.Transaction.type

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self._operations = operations

    def serialize(self) -> bytes:
        parts = []
        for operation in self._operations:
            request = to_kazoo(operation)
            parts.append(_multi_header(request.type, done=False))
            parts.append(bytes(request.serialize()))
        return b"".join(parts) + _multi_header(-1, done=True)

    def deserialize(self, data: bytes, offset: int) -> list[Any]:
        results: list[Any] = []
        while True:
            kind, is_done = _INT.unpack_from(data, offset)[0], data[offset + 4]
            offset += 9
            if is_done:
                break
            result, offset = _multi_result(kind, data, offset)
            results.append(result)
        for index, result in enumerate(results):
            if isinstance(result, ZooKeeperError) and not isinstance(result, RuntimeInconsistency):
                path = self._operations[index].path
                return [MultiFailed(index, type(result)(path, result.detail))]
        return results


def _multi_header(kind: int, *, done: bool) -> bytes:
    return _INT.pack(kind) + bytes([done]) + _INT.pack(-1)


def _multi_result(kind: int, data: bytes, offset: int) -> tuple[Any, int]:
    if kind == jute.Create2.type:
        path, offset = jute.read_string(data, offset)
        stat, offset = _read_stat(data, offset)
        return Created(path, stat), offset
    if kind == jute.SetData.type:
        return _read_stat(data, offset)
    if kind == -1:
        code = _INT.unpack_from(data, offset)[0]
        return (None if code == ROLLED_BACK else error_of(code)), offset + 4
    return None, offset


def _read_stat(data: bytes, offset: int) -> tuple[Stat, int]:
    stat = Stat(*jute.stat_struct.unpack_from(data, offset))
    return stat, offset + jute.stat_struct.size


def _acl(acl: tuple[ZnodeAcl, ...]) -> list[ACL]:
    return [ACL(int(one.perms), Id(one.scheme, one.id)) for one in acl]


def to_kazoo(request: Request[Any]) -> Any:
    """The object that kazoo sends for `request`. Empty data are sent as null: brokers of Apache Kafka would
    parse empty data as JSON."""
    match request:
        case Create():
            flags = EPHEMERAL * request.ephemeral | SEQUENTIAL * request.sequential
            return jute.Create2(request.path, request.data or None, _acl(request.acl), flags)
        case SetData():
            return jute.SetData(request.path, request.data or None, request.version)
        case Delete():
            return jute.Delete(request.path, request.version)
        case CheckVersion():
            return jute.CheckVersion(request.path, request.version)
        case Multi():
            return MultiRequest(request.operations)
        case GetData():
            return ReadData(request.path, request.watch)
        case Exists():
            return ReadStat(request.path, request.watch)
        case GetChildren():
            return ReadChildren(request.path, request.watch)
        case GetAcl():
            return jute.GetACL(request.path)
        case SetAcl():
            return jute.SetACL(request.path, _acl(request.acl), request.aversion)
        case SyncPath():
            return jute.Sync(request.path)
    raise TypeError(f"no request: {request!r}")


def result_of(request: Request[Any], value: Any) -> Any:
    """Convert kazoo's answer to the port's result."""
    match request:
        case Create():
            return Created(value[0], Stat(*value[1]))
        case GetData():
            return NodeData(value[0] or b"", Stat(*value[1]))
        case GetChildren():
            return ChildNames(tuple(sorted(value[0])), Stat(*value[1]))
        case GetAcl():
            acl = tuple(ZnodeAcl(one.perms, one.id.scheme, one.id.id or "") for one in value[0])
            return AclAndStat(acl, Stat(*value[1]))
        case SetData() | SetAcl():
            return Stat(*value)
        case Exists():
            return None if value is None else Stat(*value)
        case Multi():
            return value[0] if value and isinstance(value[0], MultiFailed) else tuple(value)
    return None
