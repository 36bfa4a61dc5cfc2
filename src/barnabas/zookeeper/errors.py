"""The errors with which ZooKeeper answers instead of a result, as values.

A request's callback gets its result or one of these; they are exceptions so that a command line may
raise them. `code` is the number on the wire. `outcome_unknown`: the request may have been done, and may
still be done later.

Source: ``org.apache.zookeeper.KeeperException.Code``.
"""

from __future__ import annotations

from typing import ClassVar


class ZooKeeperError(Exception):
    """Base of all. `path` is the znode of the request, empty where it has none."""

    code: ClassVar[int] = -1
    outcome_unknown: ClassVar[bool] = False

    def __init__(self, path: str = "", detail: str = "") -> None:
        super().__init__(path, detail)
        self.path = path
        self.detail = detail

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def __str__(self) -> str:
        return " ".join(part for part in (type(self).__name__, self.path, self.detail) if part)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"


class NoNode(ZooKeeperError):
    """The znode does not exist; for a `Create`: its parent does not."""

    code = -101


class NoAuth(ZooKeeperError):
    """The znode's ACL does not allow it to this session."""

    code = -102


class BadVersion(ZooKeeperError):
    """The znode has another version than the request names."""

    code = -103


class NoChildrenForEphemerals(ZooKeeperError):
    """An ephemeral znode has no children."""

    code = -108


class NodeExists(ZooKeeperError):
    """The znode exists already."""

    code = -110


class NotEmpty(ZooKeeperError):
    """The znode has children, so it cannot be deleted."""

    code = -111


class InvalidACL(ZooKeeperError):
    """The ACL is empty or names a scheme that the server does not know."""

    code = -114


class BadArguments(ZooKeeperError):
    """The path is malformed, the root is to be deleted, or the request is larger than the server takes."""

    code = -8


class MarshallingError(ZooKeeperError):
    """Client and server do not understand each other."""

    code = -5


class Unimplemented(ZooKeeperError):
    """The server does not know this kind of request."""

    code = -6


class RuntimeInconsistency(ZooKeeperError):
    """An operation of a `Multi` that was not tried, because one before it failed."""

    code = -2


class ConnectionLoss(ZooKeeperError):
    """The connection ended before the answer came, or there is none. The request may have been done."""

    code = -4
    outcome_unknown = True


class OperationTimeout(ZooKeeperError):
    """The server is connected and does not answer."""

    code = -7
    outcome_unknown = True


class SessionExpired(ZooKeeperError):
    """The session is over. What was under way may have been done before its end, and is not done later."""

    code = -112
    outcome_unknown = True


class SessionMoved(ZooKeeperError):
    """The session is at another server already; the request was not done."""

    code = -118


class AuthFailed(ZooKeeperError):
    """The ensemble refuses the credentials of this session."""

    code = -115


class NoWatcher(ZooKeeperError):
    """The session has no such watch."""

    code = -121


class ServerError(ZooKeeperError):
    """Any other answer; `detail` has its number."""

    code = -1
    outcome_unknown = True


class MultiFailed(ZooKeeperError):
    """A `Multi` changed nothing: its operation at `index` failed with `cause`."""

    def __init__(self, index: int, cause: ZooKeeperError) -> None:
        super().__init__(cause.path, f"operation {index}: {cause}")
        self.index = index
        self.cause = cause

    def __reduce__(self) -> tuple[type[MultiFailed], tuple[int, ZooKeeperError]]:
        return MultiFailed, (self.index, self.cause)

    def __repr__(self) -> str:
        return f"MultiFailed({self.index}, {self.cause!r})"


ERRORS: dict[int, type[ZooKeeperError]] = {
    error.code: error
    for error in (
        NoNode,
        NoAuth,
        BadVersion,
        NoChildrenForEphemerals,
        NodeExists,
        NotEmpty,
        InvalidACL,
        BadArguments,
        MarshallingError,
        Unimplemented,
        RuntimeInconsistency,
        ConnectionLoss,
        OperationTimeout,
        SessionExpired,
        SessionMoved,
        AuthFailed,
        NoWatcher,
    )
}


def error_of(code: int, path: str = "") -> ZooKeeperError:
    """The error of the wire's `code`."""
    error = ERRORS.get(code)
    return ServerError(path, f"code {code}") if error is None else error(path)
