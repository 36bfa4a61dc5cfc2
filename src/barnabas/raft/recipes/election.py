"""An election among the users of the store: who came first leads while its session lives.

Not the quorum's own election: candidates are any processes with a session, and several elections by
different names can run at once. The guarantees are those of :mod:`barnabas.raft.recipes.lock` for a holder.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.raft.recipes.queueing import InLineError, Place, line_of
from barnabas.raft.recipes.session import Session
from barnabas.raft.recipes.store import Store


class Election:
    """One candidate in the election `name`; `value` tells the others who it is."""

    def __init__(self, store: Store, session: Session, name: str, value: bytes) -> None:
        self._store = store
        self._session = session
        self._prefix = f"/elections/{name}"
        self._value = value
        self._place: Place | None = None

    def __repr__(self) -> str:
        return f"Election({self._prefix} {self._place or 'does not stand'})"

    @property
    def leads(self) -> bool:
        return self._place is not None and self._place.is_first

    @property
    def fence(self) -> int:
        """Larger than that of every leader before; -1 while this candidate does not lead."""
        return self._place.fence if self._place is not None else -1

    @property
    def leader(self) -> bytes | None:
        """The value of the elected candidate, as this replica knows it; None where no candidate leads."""
        line = line_of(self._store, f"{self._prefix}/")
        return line[0][1].value if line else None

    def run(
        self, on_elected: Callable[[], None], on_lost: Callable[[], None] = lambda: None
    ) -> None:
        """Become a candidate. `on_lost` is called once where the session ends or a client deletes the key,
        elected or not; after that, and after `withdraw`, `run` may be called again. Raises
        ``SessionOverError``, and ``InLineError`` where this candidate already runs."""
        if self._place is not None and not self._place.is_over:
            raise InLineError(repr(self))
        self._place = Place(
            self._store, self._session, self._prefix, self._value, on_elected, on_lost
        )
        self._place.enter()

    def withdraw(self) -> None:
        """Stand no more; the next one leads as soon as the quorum has heard of it."""
        place, self._place = self._place, None
        if place is not None:
            place.leave()
