"""Delegation tokens in znodes: read at the start, kept current by notifications, changed with versions.

Every broker has all of them, without their secrets. The broker that a client asks writes the token's znode,
conditional on its version, and a notification in the same transaction. Every other broker reads the znode
again then.

Source: Kafka 3.9's ``DelegationTokenManagerZk``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.ports import Ports
from barnabas.wire.schema import Message
from barnabas.zookeeper.errors import NodeExists, NoNode, ZooKeeperError
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.pending_znodes import ancestors_of
from barnabas.zookeeper.layout.token_znodes import (
    CHANGE_PREFIX,
    CHANGES,
    TOKENS,
    DelegationTokenZnode,
    TokenChangeZnode,
)
from barnabas.zookeeper.notification_folder import NotificationFolder
from barnabas.zookeeper.operations import (
    ChildNames,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    NodeData,
    Operation,
    SetData,
)
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.znode_store import WRITE_RETRIES_MAX, ZnodeStore

TokenChange = DelegationTokenRecord | RemoveDelegationTokenRecord
Decide = Callable[[], TokenChange | None]
"""A decision on what is to be written of a token, from what the store knows at that moment; None for
nothing."""


class TokenStore(ZnodeStore):
    """The delegation tokens that this broker knows, by id."""

    def __init__(self, ports: Ports, sessions: SessionKeeper) -> None:
        super().__init__(ports, sessions, "zookeeper.tokens")
        self._notifications = NotificationFolder(
            ports,
            sessions,
            CHANGE_PREFIX,
            self._on_notification,
            self._read_all,
            self._on_unread,
        )
        self._found: dict[str, None] = {}
        self.tokens: dict[str, DelegationTokenZnode] = {}

    def records(self) -> list[Message]:
        """All tokens."""
        return [self.tokens[token_id].record() for token_id in sorted(self.tokens)]

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == CHANGES:
            self._notifications.look(follow=True)

    # -- reading -----------------------------------------------------------------------------------

    def _ask_for_all(self) -> None:
        self._found = {}
        for path in (*reversed(list(ancestors_of(TOKENS))), TOKENS, CHANGES):
            self._ask(Create(path), self._on_made)
        self._notifications.look(follow=False)
        self._ask(GetChildren(TOKENS), self._on_ids)

    def _on_all_read(self) -> None:
        for token_id in [one for one in self.tokens if one not in self._found]:
            self.read(token_id)  # its znode was deleted, or created after the listing

    def _on_made(self, result: object) -> None:
        if isinstance(result, ZooKeeperError) and not isinstance(result, NodeExists):
            self._on_unread(result)

    def _on_unread(self, error: ZooKeeperError) -> None:
        if not isinstance(error, NoNode):
            self._ports.log("error", "zookeeper.tokens_refused", error=error)

    def _on_ids(self, result: ChildNames | ZooKeeperError) -> None:
        if not isinstance(result, ChildNames):
            self._on_unread(result)
            return
        for token_id in result.names:
            self._found[token_id] = None
            self._ask(GetData(_path(token_id)), partial(self._on_token, token_id))

    def read(self, token_id: str) -> None:
        """Read what the znode says now."""
        self._sessions.ask(GetData(_path(token_id)), partial(self._on_token, token_id))

    def _on_token(self, token_id: str, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, NoNode):
            self._take(token_id, None)
        elif isinstance(result, NodeData):
            try:
                token = DelegationTokenZnode.decode(_path(token_id), result.data)
            except MalformedZnode as error:  # as Kafka: the others are served
                self._ports.log("error", "zookeeper.znode_unreadable", error=error)
                return
            self._take(token_id, token)
        else:
            self._on_unread(result)

    def _take(self, token_id: str, token: DelegationTokenZnode | None) -> None:
        if self.tokens.get(token_id) == token:
            return
        if token is None:
            del self.tokens[token_id]
            self._report([RemoveDelegationTokenRecord(token_id=token_id)])
        else:
            self.tokens[token_id] = token
            self._report([token.record()])

    def _on_notification(self, path: str, data: bytes) -> None:
        self.read(TokenChangeZnode.decode(path, data).token_id)

    # -- changing ----------------------------------------------------------------------------------

    def update(
        self, token_id: str, decide: Decide, done: Callable[[str], None], attempt: int = 0
    ) -> None:
        """Read the token, and write what `decide` says of it, again after another broker's write. `done` gets
        an empty text, or why it was given up."""
        again = partial(self._again, token_id, decide, done, attempt)

        def on_read(result: NodeData | ZooKeeperError) -> None:
            if isinstance(result, ZooKeeperError) and not isinstance(result, NoNode):
                again()
                return
            self._on_token(token_id, result)
            change = decide()
            if change is None:
                done("")
            else:
                version = result.stat.version if isinstance(result, NodeData) else None
                self._write(token_id, change, version, done, again)

        self._sessions.submit(GetData(_path(token_id)), on_read)

    def _write(
        self,
        token_id: str,
        change: TokenChange,
        version: int | None,
        done: Callable[[str], None],
        again: Callable[[], None],
    ) -> None:
        path = _path(token_id)
        token: DelegationTokenZnode | None = None
        write: Operation
        if isinstance(change, DelegationTokenRecord):
            token = DelegationTokenZnode.of_record(change)
            data = token.encode()
            write = Create(path, data) if version is None else SetData(path, data, version)
        else:
            assert version is not None
            write = Delete(path, version)
        notice = Create(CHANGE_PREFIX, TokenChangeZnode(token_id).encode(), sequential=True)

        def on_written(result: object) -> None:
            if isinstance(result, ZooKeeperError):
                again()  # another broker wrote, or it is unknown whether this one did
                return
            self._take(token_id, token)
            done("")

        self._sessions.submit(Multi((write, notice)), on_written)

    def _again(
        self, token_id: str, decide: Decide, done: Callable[[str], None], attempt: int
    ) -> None:
        if not self._try_later(attempt, partial(self.update, token_id, decide, done, attempt + 1)):
            done(f"token {token_id} could not be written in {WRITE_RETRIES_MAX} attempts")

    def describe(self) -> Mapping[str, object]:
        return {"tokens": len(self.tokens)}

    def __repr__(self) -> str:
        return f"TokenStore({len(self.tokens)} tokens)"


def _path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"
