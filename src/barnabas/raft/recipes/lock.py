"""A lock: whoever's ephemeral key is the oldest holds it, the others wait in the order they came.

A holder that pauses for longer than its session's time-out may go on believing that it holds the lock;
`fence` is the number by which whoever it writes to can tell (it grows with every holder).
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.raft.recipes.queueing import Place
from barnabas.raft.recipes.session import Session
from barnabas.raft.recipes.store import Store


class Lock:
    """One session's wish for the lock `name`."""

    def __init__(self, store: Store, session: Session, name: str) -> None:
        self._store = store
        self._session = session
        self._prefix = f"/locks/{name}"
        self._place: Place | None = None

    @property
    def held(self) -> bool:
        return self._place is not None and self._place.is_first

    @property
    def fence(self) -> int:
        """-1 while it is not held."""
        return self._place.fence if self._place is not None and self.held else -1

    def acquire(
        self, on_acquired: Callable[[], None], on_lost: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for it. `on_lost` is called where the session ends first, or later while held."""
        if self._place is None:
            self._place = Place(self._store, self._session, self._prefix, b"", on_acquired, on_lost)

    def release(self) -> None:
        """Give it up, or stop waiting for it."""
        place, self._place = self._place, None
        if place is not None:
            place.leave()
