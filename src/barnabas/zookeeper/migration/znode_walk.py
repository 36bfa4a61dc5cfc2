"""All znodes of a cluster, read through a node's session, without those that only notify.

Each question is asked again until the ensemble answers. The walk is no snapshot of one zxid: it is made when
`/controller` is held: then no other controller writes what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.layout import config_znodes, token_znodes
from barnabas.zookeeper.layout.acl_znodes import EXTENDED_CHANGES, LITERAL_CHANGES
from barnabas.zookeeper.layout.request_znodes import ISR_CHANGES, LOG_DIR_EVENTS
from barnabas.zookeeper.operations import ChildNames, GetChildren, GetData, NodeData
from barnabas.zookeeper.session_keeper import SessionKeeper

NOTIFICATIONS = frozenset(
    {
        config_znodes.CHANGES,
        LITERAL_CHANGES,
        EXTENDED_CHANGES,
        ISR_CHANGES,
        LOG_DIR_EVENTS,
        token_znodes.CHANGES,
    }
)
"""Their children are no state."""
SYSTEM = "/zookeeper"
Znodes = Mapping[str, NodeData]


class ZnodeWalk:
    """One walk; `done` gets the znodes by path, or the error of the first question that failed."""

    def __init__(
        self, sessions: SessionKeeper, done: Callable[[Znodes | ZooKeeperError], None]
    ) -> None:
        self._sessions = sessions
        self._done: Callable[[Znodes | ZooKeeperError], None] | None = done
        self._znodes: dict[str, NodeData] = {}
        self._open = 0

    def start(self, *roots: str) -> None:
        """Everything at and below `roots`."""
        for path in roots:
            self._visit(path)

    def stop(self) -> None:
        """Nothing is called back any more."""
        self._done = None

    def _visit(self, path: str) -> None:
        if path != "/":
            self._ask(GetData(path), partial(self._znodes.__setitem__, path))
        if path not in NOTIFICATIONS and not path.endswith("/state"):
            self._ask(GetChildren(path), partial(self._on_children, path))

    def _on_children(self, path: str, found: ChildNames) -> None:
        for name in found.names:
            child = f"{path.rstrip('/')}/{name}"
            if child != SYSTEM:
                self._visit(child)

    def _ask(self, request: Any, then: Callable[[Any], None]) -> None:
        self._open += 1

        def on_answer(result: object) -> None:
            if self._done is None:
                return
            if isinstance(result, ZooKeeperError) and not isinstance(result, NoNode):
                self._finish(result)
                return
            if not isinstance(result, NoNode):  # else it is gone meanwhile
                then(result)
            self._open -= 1
            if not self._open:
                self._finish(self._znodes)

        self._sessions.ask(request, on_answer)

    def _finish(self, result: Znodes | ZooKeeperError) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(result)
