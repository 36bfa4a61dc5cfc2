"""Sessions: the leader counts heartbeats, and a record of the log ends a session.

The owner of a `Session` sends three heartbeats per time-out. `SessionClock` runs on the leader only: it
proposes the end of a session that was silent for its time-out. The session's ephemeral keys are deleted
with it, on every replica at the same offset. A new leader knows no heartbeats, so it gives every session a
full time-out.

Invariant: the owner counts the time-out from when it *sent* a heartbeat that was confirmed by a leader which
led after that moment (:mod:`confirming`) and had not proposed the session's end. Leaders, also later ones,
count from that moment or later. So if clocks run at one rate, the owner considers the session over before any
other client can act on its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.ports import Wakeup
from barnabas.raft.recipes.calling import PROPOSAL_RETRY_MS, ProposalError
from barnabas.raft.recipes.confirming import Confirmation

if TYPE_CHECKING:
    from barnabas.raft.recipes.store import Store

BEATS_PER_TIMEOUT = 3
CHECK_MS_MAX = 100.0
"""Longest time between two checks of the sessions by their leader: a session with a short time-out may be
opened in between."""


class Session:
    """One owner's session. The callbacks in `on_end` are called once, when it is over or may be over."""

    def __init__(self, store: Store, session: int, timeout_ms: int, asked_ms: float) -> None:
        """`asked_ms`: when the request to open it was sent."""
        self.id = session
        self.timeout_ms = timeout_ms
        self.is_over = False
        """Whether it ended, or no leader confirmed it in time."""
        self.on_end: list[Callable[[], None]] = []
        self._store = store
        self._names = 0
        self._until_ms = asked_ms + timeout_ms
        self._wakeup: Wakeup | None = None
        self._beat_later(timeout_ms / BEATS_PER_TIMEOUT)

    def __repr__(self) -> str:
        return f"Session({self.id} {'alive' if self.alive else 'over'})"

    @property
    def alive(self) -> bool:
        """Whether the session is certainly alive. Also checks the clock: after a pause of this process the
        session may be over before `on_end` is called. Once false, it stays false."""
        return not self.is_over and self._store.ports.clock.now_ms() < self._until_ms

    def new_name(self) -> str:
        """A name that is unique in this quorum, also among all past names."""
        self._names += 1
        return f"{self.id:020d}-{self._names:06d}"

    def close(self, on_done: Callable[[Any], None] = lambda result: None) -> None:
        """End the session now; its keys are deleted as soon as a leader commits the end."""
        if not self.is_over:
            self._over()
            until = self._store.ports.clock.now_ms() + self.timeout_ms
            self._store.insist(
                {"do": "end", "session": self.id},
                on_done,
                lambda: self._store.ports.clock.now_ms() < until,
            )

    def _beat_later(self, delay_ms: float) -> None:
        """Schedule the next heartbeat, at the latest when the session must count as over."""
        if self._wakeup is not None:
            self._wakeup.cancel()
        now = self._store.ports.clock.now_ms()
        due = max(min(now + delay_ms, self._until_ms), now + 1)
        self._wakeup = self._store.ports.wakeups.call_at(due, self._beat)

    def _beat(self) -> None:
        if self.is_over:
            return
        if not self.alive:
            # The leader may have ended the session: its users must not rely on it any more.
            self._over()
            return
        now = self._store.ports.clock.now_ms()
        wait_ms = self.timeout_ms / BEATS_PER_TIMEOUT
        self._beat_later(wait_ms)
        self._store.touch(
            self.id, lambda result: self._touched(result, now), timeout_ms=2 * wait_ms
        )

    def _touched(self, result: Any, asked_ms: float) -> None:
        if not self.alive:
            return
        if result is True:
            self._until_ms = max(self._until_ms, asked_ms + self.timeout_ms)
        elif result is False:
            self._over()
        else:
            self._beat_later(min(PROPOSAL_RETRY_MS, self.timeout_ms / 10))

    def _over(self) -> None:
        self.is_over = True
        if self._wakeup is not None:
            self._wakeup.cancel()
        for callback in list(self.on_end):
            self._store.call(callback)


class SessionClock:
    """The leader's deadlines of all sessions."""

    def __init__(self, store: Store, confirmation: Confirmation) -> None:
        self._store = store
        self._confirmation = confirmation
        self._deadlines: dict[int, float] = {}
        self._ending: set[int] = set()
        """Sessions whose end was proposed and may be committed at any time."""
        self._leads = False
        self._wakeup: Wakeup | None = None

    def on_leader(self, leads: bool) -> None:
        """This replica leads now, or no longer."""
        self._leads = leads
        self._deadlines.clear()
        self._ending.clear()
        if leads and self._wakeup is None:
            self._check()

    def close(self) -> None:
        """Stop counting."""
        self.on_leader(False)
        if self._wakeup is not None:
            self._wakeup.cancel()

    def touch(self, session: int, on_done: Callable[[Any], None]) -> None:
        """Handle a heartbeat; `on_done` gets whether the session is alive, or a ``ProposalError``."""
        timeout = self._store.tree.sessions.get(session)
        if timeout is None:
            on_done(False)
        elif session in self._ending:
            on_done(ProposalError("the session is being ended", definite=True))
        else:
            self._deadlines[session] = self._store.ports.clock.now_ms() + timeout
            self._confirmation.ask(on_done)

    def _check(self) -> None:
        self._wakeup = None
        if not self._leads:
            return
        now = self._store.ports.clock.now_ms()
        sessions = self._store.tree.sessions
        if self._store.leads:  # otherwise another replica may lead and count already
            self._end_silent(now)
        due = now + max(min(sessions.values(), default=CHECK_MS_MAX * 10) / 10, 5.0)
        self._wakeup = self._store.ports.wakeups.call_at(min(due, now + CHECK_MS_MAX), self._check)

    def _end_silent(self, now: float) -> None:
        sessions = self._store.tree.sessions
        for session in [s for s in self._deadlines if s not in sessions]:
            del self._deadlines[session]
        self._ending.intersection_update(sessions)
        for session, timeout in list(sessions.items()):
            deadline = self._deadlines.setdefault(session, now + timeout)
            if now >= deadline:
                self._deadlines[session] = now + timeout
                self._ending.add(session)
                self._store.propose({"do": "end", "session": session}, lambda result: None)
