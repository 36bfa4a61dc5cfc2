"""Sessions: who is alive, counted by the leader, ended by a record of the log.

The owner of a `Session` sends a sign of life three times per time-out. `SessionClock` runs on the leader
only: a session that stays silent for its time-out is ended by a proposal, and its ephemeral keys go
with it, on every replica at the same offset. A new leader knows no heartbeats and so gives every
session its full time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.ports import Wakeup

if TYPE_CHECKING:
    from barnabas.raft.recipes.store import Store

BEATS_PER_TIMEOUT = 3
RETRY_MS = 50.0


class Session:
    """One owner's session. `on_end` is called once, when it is over or may be."""

    def __init__(self, store: Store, session: int, timeout_ms: int) -> None:
        self.id = session
        self.timeout_ms = timeout_ms
        self.alive = True
        self.on_end: list[Callable[[], None]] = []
        self._store = store
        self._confirmed_ms = store.ports.clock.now_ms()
        self._wakeup: Wakeup | None = None
        self._beat_later(timeout_ms / BEATS_PER_TIMEOUT)

    def __repr__(self) -> str:
        return f"Session({self.id} {'alive' if self.alive else 'over'})"

    def close(self, on_done: Callable[[Any], None] = lambda result: None) -> None:
        """End it now: its keys go at once."""
        if self.alive:
            self._over()
            self._store.propose({"do": "end", "session": self.id}, on_done)

    def _beat_later(self, delay_ms: float) -> None:
        """The next sign of life; at the latest when the session must count as over."""
        if self._wakeup is not None:
            self._wakeup.cancel()
        now = self._store.ports.clock.now_ms()
        due = min(now + delay_ms, self._confirmed_ms + self.timeout_ms)
        self._wakeup = self._store.ports.wakeups.call_at(due, self._beat)

    def _beat(self) -> None:
        now = self._store.ports.clock.now_ms()
        if not self.alive:
            return
        if now - self._confirmed_ms >= self.timeout_ms:
            # The leader may have ended it by now: whoever relies on it must not any more.
            self._over()
            return
        self._beat_later(self.timeout_ms / BEATS_PER_TIMEOUT)
        self._store.touch(self.id, lambda result: self._touched(result, now))

    def _touched(self, result: Any, sent_ms: float) -> None:
        if not self.alive:
            return
        if result is True:
            self._confirmed_ms = max(self._confirmed_ms, sent_ms)
        elif result is False:
            self._over()
        else:
            self._beat_later(min(RETRY_MS, self.timeout_ms / 10))

    def _over(self) -> None:
        self.alive = False
        if self._wakeup is not None:
            self._wakeup.cancel()
        for callback in self.on_end:
            callback()


class SessionClock:
    """The leader's knowledge of when each session was heard of last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._deadlines: dict[int, float] = {}
        self._leads = False
        self._wakeup: Wakeup | None = None

    def on_leader(self, leads: bool) -> None:
        """This replica leads now, or no longer."""
        self._leads = leads
        self._deadlines.clear()
        if leads and self._wakeup is None:
            self._check()

    def touch(self, session: int) -> bool:
        """A sign of life; whether the session lives."""
        timeout = self._store.tree.sessions.get(session)
        if timeout is None:
            return False
        self._deadlines[session] = self._store.ports.clock.now_ms() + timeout
        return True

    def _check(self) -> None:
        self._wakeup = None
        if not self._leads:
            return
        now = self._store.ports.clock.now_ms()
        sessions = self._store.tree.sessions
        for session in [s for s in self._deadlines if s not in sessions]:
            del self._deadlines[session]
        for session, timeout in list(sessions.items()):
            deadline = self._deadlines.setdefault(session, now + timeout)
            if now >= deadline:
                self._deadlines[session] = now + timeout
                self._store.propose({"do": "end", "session": session}, lambda result: None)
        shortest = min(sessions.values(), default=1_000)
        self._wakeup = self._store.ports.wakeups.call_at(now + max(shortest / 10, 5.0), self._check)
