"""An election among the users of the store: who came first leads while its session lives.

Not the quorum's own election: candidates are any processes with a session, and several elections by
different names go on at once.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.raft.recipes.queueing import Place
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

    @property
    def leads(self) -> bool:
        return self._place is not None and self._place.is_first

    @property
    def leader(self) -> bytes | None:
        """The value of whoever leads, as this replica knows it; None: nobody."""
        line = self._store.tree.under(f"{self._prefix}/")
        return min(line, key=lambda item: item[1].created)[1].value if line else None

    def run(
        self, on_elected: Callable[[], None], on_lost: Callable[[], None] = lambda: None
    ) -> None:
        """Stand. `on_lost` is called where the session ends, elected or not."""
        if self._place is None:
            self._place = Place(
                self._store, self._session, self._prefix, self._value, on_elected, on_lost
            )

    def withdraw(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            place.leave()
