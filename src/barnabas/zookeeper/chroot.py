"""A session below a chroot: what is sent has it before its paths, what comes back has it no longer.

Both implementations of the port use this, so that the servers know nothing of it. Source:
``org.apache.zookeeper.client.Chroot``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.zookeeper.errors import MultiFailed, ZooKeeperError
from barnabas.zookeeper.operations import Create, Created, Multi, Request
from barnabas.zookeeper.session import WatchEvent


class Chroot:
    """`/a/b`, or empty."""

    def __init__(self, path: str) -> None:
        self.path = path

    def creates(self) -> list[Create]:
        """The requests that make the chroot, from the top; that a part exists already is no failure."""
        parts = self.path.split("/")[1:]
        return [Create("/" + "/".join(parts[: end + 1])) for end in range(len(parts))]

    def below(self, path: str) -> str:
        """`path` as the servers know it."""
        if not self.path:
            return path
        return self.path if path == "/" else self.path + path

    def above(self, path: str) -> str:
        """`path` as the session's owner knows it."""
        if not self.path or not path.startswith(self.path):
            return path
        return path[len(self.path) :] or "/"

    def request(self, request: Request[Any]) -> Any:
        """The request for the servers."""
        if not self.path:
            return request
        if isinstance(request, Multi):
            return Multi(tuple(self.request(operation) for operation in request.operations))
        return replace(request, path=self.below(request.path))  # type: ignore[type-var, attr-defined]

    def answer(self, answer: Any) -> Any:
        """The result or the error for the owner."""
        if not self.path:
            return answer
        if isinstance(answer, Created):
            return answer._replace(path=self.above(answer.path))
        if isinstance(answer, MultiFailed):
            return MultiFailed(answer.index, self.answer(answer.cause))
        if isinstance(answer, ZooKeeperError):
            return type(answer)(self.above(answer.path), answer.detail)
        if type(answer) is tuple:
            return tuple(self.answer(one) for one in answer)
        return answer

    def event(self, event: WatchEvent) -> WatchEvent:
        return WatchEvent(event.kind, self.above(event.path)) if self.path else event
