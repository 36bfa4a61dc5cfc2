"""Standing in line: an ephemeral key with a growing number, and the wait until it is the first.

What lock and election share. The line's order is the order of the log, so all replicas agree on who is
first; whoever's session ends leaves the line. Only the head's leaving wakes its successor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.raft.recipes.session import Session
from barnabas.raft.recipes.store import ProposalError, Store
from barnabas.raft.recipes.tree import Change

RETRY_MS = 50.0


class Place:
    """One session's place in the line under `prefix`. `on_first` is called when it is the first,
    `on_lost` when it is not in the line any more."""

    def __init__(
        self,
        store: Store,
        session: Session,
        prefix: str,
        value: bytes,
        on_first: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._session = session
        self._prefix = f"{prefix.rstrip('/')}/{session.id:020d}-"
        self._line = f"{prefix.rstrip('/')}/"
        self._value = value
        self._on_first = on_first
        self._on_lost = on_lost
        self.key = ""
        self.is_first = False
        self._left = False
        self._unwatch = store.watch(self._line, self._on_change)
        session.on_end.append(self._lose)
        self._join()

    @property
    def fence(self) -> int:
        """A number that grows with every holder: give it along with what is done while first, and
        let whoever stores the effect refuse smaller ones."""
        entry = self._store.tree.entries.get(self.key)
        return entry.created if entry is not None else -1

    def _join(self) -> None:
        if self._left:
            return
        existing = self._store.tree.under(self._prefix)
        if existing:  # an earlier attempt without an answer had come through
            self._joined(existing[0][0])
            return
        self._store.create(
            self._prefix, self._value, self._joined, session=self._session.id, sequential=True
        )

    def _joined(self, result: Any) -> None:
        if isinstance(result, ProposalError):
            now = self._store.ports.clock.now_ms()
            self._store.ports.wakeups.call_at(now + RETRY_MS, self._join)
        elif isinstance(result, Exception):
            self._lose()
        elif self._left:
            self._store.delete(result, lambda done: None)
        else:
            self.key = result
            self._look()

    def _on_change(self, change: Change) -> None:
        if change.key == self.key and change.entry is None:
            self._lose()
        elif change.entry is None or change.key == self.key:
            self._look()

    def _look(self) -> None:
        if not self.key or self.is_first or self._left:
            return
        line = self._store.tree.under(self._line)
        if line and min(line, key=lambda item: item[1].created)[0] == self.key:
            self.is_first = True
            self._on_first()

    def leave(self, on_done: Callable[[Any], None] = lambda result: None) -> None:
        """Give the place up."""
        if not self._left:
            self._end()
            if self.key:
                self._store.delete(self.key, on_done)

    def _lose(self) -> None:
        if not self._left:
            self._end()
            self._on_lost()

    def _end(self) -> None:
        self._left = True
        self.is_first = False
        self._unwatch()
