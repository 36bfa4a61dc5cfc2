"""A lock: the session with the oldest ephemeral key holds it, the others wait in the order they came.

Guaranteed: of all objects of all sessions at most one has `held`, as long as clocks run at one rate; what was
true when one looked may be over a moment later (a pause is enough). So pass `fence` along with every
write under the lock, and let the storage refuse a smaller fence than it has seen: the fence is
the offset that made the holder's key, and each holder's is larger than those of all before, whatever
clocks do.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.raft.recipes.queueing import InLineError, Place
from barnabas.raft.recipes.session import Session
from barnabas.raft.recipes.store import Store


class Lock:
    """One wish for the lock `name`; two objects contend, of one session as well."""

    def __init__(self, store: Store, session: Session, name: str) -> None:
        self._store = store
        self._session = session
        self._prefix = f"/locks/{name}"
        self._place: Place | None = None

    def __repr__(self) -> str:
        return f"Lock({self._prefix} {self._place or 'not asked for'})"

    @property
    def held(self) -> bool:
        return self._place is not None and self._place.is_first

    @property
    def fence(self) -> int:
        """Larger than that of every holder before; -1 while it is not held."""
        return self._place.fence if self._place is not None else -1

    def acquire(
        self, on_acquired: Callable[[], None], on_lost: Callable[[], None] = lambda: None
    ) -> None:
        """Stand in line for it, behind all who have come. `on_lost` is called once where the session ends
        or a client deletes the key, while waiting or later while held; after that, and after `release`, it
        may be acquired again. Raises ``SessionOverError`` (a lock is for one session: make another), and
        ``InLineError`` where this object waits or holds already."""
        if self._place is not None and not self._place.is_over:
            raise InLineError(repr(self))
        self._place = Place(self._store, self._session, self._prefix, b"", on_acquired, on_lost)
        self._place.enter()

    def release(self) -> None:
        """Give it up, or stop waiting for it: at once for this object, for the others as soon as the quorum
        has a leader that hears of it, at the latest when the session ends."""
        place, self._place = self._place, None
        if place is not None:
            place.leave()
