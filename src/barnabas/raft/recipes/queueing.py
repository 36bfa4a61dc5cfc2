"""Standing in line: an ephemeral key of one's own, and the wait until it is the oldest.

What lock and election share. The line's order is the order of the log, so all replicas agree on who is
first; a place whose session ends leaves the line.

Each place has a key that no other place ever uses: the session's id and a number that the session gives
out once. So a create that ended without an answer is simply asked again, *exists* means one's own, and
a delete, however late it arrives, cannot hit a newer place. The position in the line is read from this
replica's tree alone, never from an answer. A place that is left deletes its key until that is done or the
session is over; where a create may still be on its way, it keeps watching for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.raft.recipes.calling import PROPOSAL_RETRY_MS, ProposalError
from barnabas.raft.recipes.session import Session
from barnabas.raft.recipes.store import Store
from barnabas.raft.recipes.tree import Change, Entry, RefusedError

KEY_RETRY_MS = 1_000.0
"""When a key that was made is asked for again, if it has not shown here by then."""


class SessionOverError(Exception):
    """The session is over, or may be: open another."""


class InLineError(Exception):
    """It is waited for or held already, by this very object."""


def line_of(store: Store, line: str) -> list[tuple[str, Entry]]:
    """The places in `line`, the oldest first."""
    found = [item for item in store.tree.under(line) if "/" not in item[0][len(line) :]]
    return sorted(found, key=lambda item: item[1].created)


class Place:
    """One attempt to become the first in the line under `prefix`. `on_first` is called when it is,
    `on_lost` when it is not in the line any more although `leave` was not called. Raises
    ``SessionOverError``."""

    def __init__(
        self,
        store: Store,
        session: Session,
        prefix: str,
        value: bytes,
        on_first: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        if not session.alive:
            raise SessionOverError(f"{session}: open another")
        self._store = store
        self._session = session
        self._line = f"{prefix}/"
        self.key = f"{self._line}{session.new_name()}"
        self._value = value
        self._on_first = on_first
        self._on_lost = on_lost
        self._created = -1
        """The offset that created the key, once it was seen."""
        self._was_first = False
        self.is_over = False
        """Left or lost: nothing will come of it any more."""
        self._asking = self._cleaning = False
        """A create, a delete is under way."""
        self._doubtful = False
        """A create ended without an answer: it may be done at any time, while the session lives."""
        self._unwatch = store.watch(self._line, self._on_change)
        session.on_end.append(self._on_session_over)

    def __repr__(self) -> str:
        state = "over" if self.is_over else "first" if self.is_first else "waiting"
        return f"Place({self.key} {state})"

    @property
    def is_first(self) -> bool:
        """First, with a session that surely lives."""
        return self._was_first and not self.is_over and self._session.alive

    @property
    def fence(self) -> int:
        """The offset that made the key; -1 while it is not the first."""
        return self._created if self.is_first else -1

    # -- entering --------------------------------------------------------------------------------

    def enter(self) -> None:
        """Ask for the key, until it is seen."""
        if not self.is_over and not self._asking and self._created < 0:
            self._asking = True
            self._store.create(self.key, self._value, self._entered, session=self._session.id)

    def _entered(self, result: Any) -> None:
        self._asking = False
        failed = isinstance(result, ProposalError)
        if failed and not result.definite:
            self._doubtful = True
        if self.is_over:
            self._clean()
        elif isinstance(result, RefusedError) and result.reason != "exists":
            self._lose()
        else:
            now = self._store.ports.clock.now_ms()
            due = now + (PROPOSAL_RETRY_MS if failed else KEY_RETRY_MS)
            self._store.ports.wakeups.call_at(due, self.enter)

    # -- standing --------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        if change.key == self.key or change.entry is None:
            self._check_entry()

    def _check_entry(self) -> None:
        entry = self._store.tree.entries.get(self.key)
        if self.is_over:
            if entry is not None:
                self._clean()
        elif self._created >= 0 and (entry is None or entry.created != self._created):
            self._lose()
        elif entry is not None:
            self._created = entry.created
            first = line_of(self._store, self._line)[0][0] == self.key
            if first and not self._was_first and self._session.alive:
                self._was_first = True
                self._on_first()

    # -- leaving ---------------------------------------------------------------------------------

    def leave(self) -> None:
        """Give the place up, first or not. The key is deleted as soon as the quorum has a leader."""
        if not self.is_over:
            self.is_over = True
            self._clean()

    def _lose(self) -> None:
        if not self.is_over:
            self.leave()
            self._store.call(self._on_lost)

    def _on_session_over(self) -> None:
        self._lose()
        self._forget()

    def _clean(self) -> None:
        """See to it that the key goes and stays away. What is under way comes first."""
        if self._asking or self._cleaning or self._session.is_over:
            return
        self._cleaning = True
        command = {"do": "delete", "key": self.key}
        self._store.insist(command, self._cleaned, lambda: not self._session.is_over)

    def _cleaned(self, result: Any) -> None:
        self._cleaning = False
        if not self._doubtful:
            self._forget()
        elif self.key in self._store.tree.entries:
            now = self._store.ports.clock.now_ms()
            self._store.ports.wakeups.call_at(now + PROPOSAL_RETRY_MS, self._check_entry)

    def _forget(self) -> None:
        self._unwatch()
        if self._on_session_over in self._session.on_end:
            self._session.on_end.remove(self._on_session_over)
