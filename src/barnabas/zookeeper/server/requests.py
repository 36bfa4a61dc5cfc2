"""ZooKeeper's requests and responses on the wire, as values of `operations`.

Pure. `decode` reads what follows a request's header, `encode_result` writes what follows a response's. The
log keeps a change as its client has written it.

Source: ``zookeeper.jute``, ``ZooDefs.OpCode``, ``MultiOperationRecord``, ``MultiResponse``,
``FinalRequestProcessor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from barnabas.zookeeper.errors import (
    BadArguments,
    MarshallingError,
    MultiFailed,
    NoNode,
    RuntimeInconsistency,
    Unimplemented,
    ZooKeeperError,
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
from barnabas.zookeeper.server.jute import JuteReader, JuteWriter
from barnabas.zookeeper.watch_table import WatchedPaths


class Op(IntEnum):
    """The kinds of requests that are served. 16 (reconfig), 19 to 21 (containers, time to live) and 102
    (SASL) are not."""

    ERROR = -1
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11


EPHEMERAL, SEQUENTIAL = 1, 2
_CREATE_FLAGS_MAX = 3
"""The highest flag that is served; above are containers and znodes with a time to live."""
_FLAGS_KNOWN = 6


@dataclass(frozen=True, slots=True)
class MultiRead(Request[Sequence[Any]]):
    """Several reads, each with its own result or error."""

    reads: tuple[GetData | GetChildren, ...]


@dataclass(frozen=True, slots=True)
class SetWatches(Request[None]):
    """Watch again what was watched at another server, at which the client saw `since_zxid`."""

    since_zxid: int
    watched: WatchedPaths


@dataclass(frozen=True, slots=True)
class AddWatch(Request[None]):
    """A watch that stays when it has fired; `recursive` covers all znodes below, and no changes of
    children."""

    path: str
    recursive: bool


@dataclass(frozen=True, slots=True)
class Unwatch(Request[None]):
    """Remove watches of `kind`: 1 of children, 2 of data, 3 any. `check_only` says whether there is one."""

    path: str
    kind: int
    check_only: bool


@dataclass(frozen=True, slots=True)
class GetEphemerals(Request[Sequence[str]]):
    """The session's own ephemeral znodes below a path."""

    path: str


@dataclass(frozen=True, slots=True)
class CountChildren(Request[int]):
    """The number of a znode's descendants."""

    path: str


@dataclass(frozen=True, slots=True)
class WhoAmI(Request[Sequence[tuple[str, str]]]):
    """The identities of the connection."""


@dataclass(frozen=True, slots=True)
class CloseSession(Request[None]):
    """End the session."""


@dataclass(frozen=True, slots=True)
class Refused(Request[None]):
    """A request of a kind that is not served."""

    error: ZooKeeperError


class RefusedRequest(Exception):
    """A well-formed request of a kind that is not served; answered with `error`."""

    def __init__(self, error: ZooKeeperError) -> None:
        super().__init__(str(error))
        self.error = error


def decode(op: int, reader: JuteReader) -> Request[Any]:
    """The request of kind `op`. Raises `JuteError`."""
    try:
        return _decode(op, reader)
    except RefusedRequest as refused:
        return Refused(refused.error)


def _decode(op: int, reader: JuteReader) -> Request[Any]:
    text = reader.text
    match op:
        case Op.EXISTS:
            return Exists(text(), reader.bool())
        case Op.GET_DATA:
            return GetData(text(), reader.bool())
        case Op.GET_CHILDREN | Op.GET_CHILDREN2:
            return GetChildren(text(), reader.bool())
        case Op.GET_ACL:
            return GetAcl(text())
        case Op.SET_ACL:
            return SetAcl(text(), _read_acl(reader), reader.number())
        case Op.SYNC:
            return SyncPath(text())
        case Op.MULTI:
            return _read_multi(reader)
        case Op.MULTI_READ:
            return MultiRead(_read_reads(reader))
        case Op.SET_WATCHES | Op.SET_WATCHES2:
            lists = 5 if op == Op.SET_WATCHES2 else 3
            zxid = reader.long()
            return SetWatches(zxid, WatchedPaths(*(reader.vector(text) for _ in range(lists))))
        case Op.ADD_WATCH:
            path, mode = text(), reader.number()
            if mode not in (0, 1):
                raise RefusedRequest(BadArguments(path))
            return AddWatch(path, mode == 1)
        case Op.CHECK_WATCHES | Op.REMOVE_WATCHES:
            path, kind = text(), reader.number()
            if kind not in (1, 2, 3):
                raise RefusedRequest(BadArguments(path))
            return Unwatch(path, kind, op == Op.CHECK_WATCHES)
        case Op.GET_EPHEMERALS:
            return GetEphemerals(text())
        case Op.GET_ALL_CHILDREN_NUMBER:
            return CountChildren(text())
        case Op.WHO_AM_I:
            return WhoAmI()
        case Op.CLOSE_SESSION:
            return CloseSession()
    return _read_operation(op, reader)


def _read_operation(op: int, reader: JuteReader) -> Operation:
    text = reader.text
    match op:
        case Op.CREATE | Op.CREATE2:
            return _read_create(reader)
        case Op.DELETE:
            return Delete(text(), reader.number())
        case Op.SET_DATA:
            return SetData(text(), reader.buffer(), reader.number())
        case Op.CHECK:
            return CheckVersion(text(), reader.number())
    raise RefusedRequest(Unimplemented("", f"request {op}"))


def _read_create(reader: JuteReader) -> Create:
    path, data, acl, flags = reader.text(), reader.buffer(), _read_acl(reader), reader.number()
    if not 0 <= flags <= _FLAGS_KNOWN:
        raise RefusedRequest(BadArguments(path, f"flags {flags}"))
    if flags > _CREATE_FLAGS_MAX:
        raise RefusedRequest(Unimplemented(path, "containers and znodes with a time to live"))
    return Create(path, data, acl, bool(flags & EPHEMERAL), bool(flags & SEQUENTIAL))


def _read_acl(reader: JuteReader) -> tuple[ZnodeAcl, ...]:
    return reader.vector(lambda: ZnodeAcl(reader.number(), reader.text(), reader.text()))


def _read_multi(reader: JuteReader) -> Multi:
    operations = []
    while (op := _next_operation(reader)) is not None:
        try:
            operations.append(_read_operation(op, reader))
        except RefusedRequest as refused:
            if isinstance(refused.error, BadArguments):  # within a multi it is no operation at all
                raise RefusedRequest(MarshallingError(refused.error.path)) from refused
            raise
    return Multi(tuple(operations))


def _read_reads(reader: JuteReader) -> tuple[GetData | GetChildren, ...]:
    reads: list[GetData | GetChildren] = []
    while (op := _next_operation(reader)) is not None:
        if op not in (Op.GET_DATA, Op.GET_CHILDREN):
            raise RefusedRequest(Unimplemented("", f"request {op} in a multiRead"))
        path, watch = reader.text(), reader.bool()
        if op == Op.GET_DATA:
            reads.append(GetData(path, watch))
        else:
            reads.append(GetChildren(path, watch))
    return tuple(reads)


def _next_operation(reader: JuteReader) -> int | None:
    op, is_last, _ = reader.number(), reader.bool(), reader.number()
    return None if is_last else op


def multi_ops(body: bytes) -> tuple[int, ...]:
    """The kinds of the operations of a multi, which its response repeats. `body` was decoded before."""
    reader, ops = JuteReader(body), []
    while (op := _next_operation(reader)) is not None:
        ops.append(op)
        _read_operation(op, reader)
    return tuple(ops)


# -- responses -----------------------------------------------------------------------------------------


def error_code(answer: object) -> int:
    """The code in the response's header. A multi that failed says it in its body."""
    if isinstance(answer, MultiFailed) or not isinstance(answer, ZooKeeperError):
        return 0
    return answer.code


def encode_result(op: int, request: Request[Any], answer: Any, ops: Sequence[int] = ()) -> bytes:
    """The body of the response to `request`; `ops` are those of a multi."""
    writer = JuteWriter()
    if isinstance(answer, MultiFailed):
        _write_failed(writer, answer, len(ops))
    elif isinstance(answer, ZooKeeperError):
        return b""
    elif op == Op.MULTI:
        _write_results(writer, ops, answer)
    elif op == Op.MULTI_READ:
        assert isinstance(request, MultiRead)
        _write_reads(writer, request.reads, answer)
    elif op == Op.SYNC:
        assert isinstance(request, SyncPath)
        writer.text(request.path)
    else:
        _write_result(writer, op, answer)
    return writer.bytes()


def _write_result(writer: JuteWriter, op: int, answer: Any) -> None:
    match answer:
        case Created(path, stat):
            writer.text(path)
            if op != Op.CREATE:
                write_stat(writer, stat)
        case Stat():
            write_stat(writer, answer)
        case NodeData(data, stat):
            write_stat(writer.buffer(data), stat)
        case ChildNames(names, stat):
            writer.vector(names, writer.text)
            if op != Op.GET_CHILDREN:
                write_stat(writer, stat)
        case AclAndStat(acl, stat):
            write_stat(write_acl(writer, acl), stat)
        case int():
            writer.number(answer)
        case tuple() if op == Op.GET_EPHEMERALS:
            writer.vector(answer, writer.text)
        case tuple():
            writer.vector(answer, lambda one: writer.text(one[0]).text(one[1]))
        case None if op == Op.ADD_WATCH:
            writer.number(0)


def write_stat(writer: JuteWriter, stat: Stat) -> JuteWriter:
    writer.long(stat.czxid).long(stat.mzxid).long(stat.ctime).long(stat.mtime)
    writer.number(stat.version).number(stat.cversion).number(stat.aversion).long(
        stat.ephemeral_owner
    )
    return writer.number(stat.data_length).number(stat.num_children).long(stat.pzxid)


def write_acl(writer: JuteWriter, acl: Sequence[ZnodeAcl]) -> JuteWriter:
    return writer.vector(
        acl, lambda entry: writer.number(entry.perms).text(entry.scheme).text(entry.id)
    )


def _write_results(writer: JuteWriter, ops: Sequence[int], results: Sequence[Any]) -> None:
    for op, result in zip(ops, results, strict=True):
        writer.number(op).bool(False).number(0)
        _write_result(writer, op, result)
    writer.number(-1).bool(True).number(-1)


def _write_failed(writer: JuteWriter, failed: MultiFailed, operations: int) -> None:
    for index in range(operations):
        code = 0 if index < failed.index else RuntimeInconsistency.code
        code = failed.cause.code if index == failed.index else code
        writer.number(Op.ERROR).bool(False).number(code).number(code)
    writer.number(-1).bool(True).number(-1)


def _write_reads(writer: JuteWriter, reads: Sequence[Request[Any]], results: Sequence[Any]) -> None:
    for read, result in zip(reads, results, strict=True):
        if isinstance(result, ZooKeeperError):
            writer.number(Op.ERROR).bool(False).number(result.code).number(result.code)
        else:
            op = Op.GET_DATA if isinstance(read, GetData) else Op.GET_CHILDREN
            writer.number(op).bool(False).number(0)
            _write_result(writer, op, result)
    writer.number(-1).bool(True).number(-1)


def missing_as_error(request: Request[Any], answer: Any) -> Any:
    """`Exists` of a znode that is not there is an error on the wire."""
    if answer is None and isinstance(request, Exists):
        return NoNode(request.path)
    return answer
