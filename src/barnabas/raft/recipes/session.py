"""Sessions: who is alive, counted by the leader, ended by a record of the log.

The owner of a `Session` sends a sign of life three times per time-out. `SessionClock` runs on the leader
only: a session that stays silent for its time-out is ended by a proposal, and its ephemeral keys go
with it, on every replica at the same offset. A new leader knows no heartbeats and so gives every
session its full time.

Invariant: the owner counts from when it *asked*, and only what a leader confirmed that led at some moment
after that (:mod:`confirming`) and had not proposed the end; leaders, later ones too, count from then or
later. So where clocks run at one rate, the owner knows of the end before any other client acts on it.
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
LOOK_MS_MAX = 100.0
"""A leader looks at its sessions at least this often, however long they may be silent: one that is opened
meanwhile may be short."""


class Session:
    """One owner's session. `on_end` is called once, when it is over or may be."""

    def __init__(self, store: Store, session: int, timeout_ms: int, asked_ms: float) -> None:
        """`asked_ms`: when its opening was asked for."""
        self.id = session
        self.timeout_ms = timeout_ms
        self.is_over = False
        """Ended, or given up because no leader confirmed it in time."""
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
        """Whether it surely lives, by the clock too: where this process was paused, it may be over before
        `on_end` could be called. Once false it stays so."""
        return not self.is_over and self._store.ports.clock.now_ms() < self._until_ms

    def new_name(self) -> str:
        """A name that is unique in this quorum for all time."""
        self._names += 1
        return f"{self.id:020d}-{self._names:06d}"

    def close(self, on_done: Callable[[Any], None] = lambda result: None) -> None:
        """End it now: its keys go as soon as the quorum has a leader that hears of it."""
        if not self.is_over:
            self._over()
            until = self._store.ports.clock.now_ms() + self.timeout_ms
            self._store.insist(
                {"do": "end", "session": self.id},
                on_done,
                lambda: self._store.ports.clock.now_ms() < until,
            )

    def _beat_later(self, delay_ms: float) -> None:
        """The next sign of life; at the latest when the session must count as over."""
        if self._wakeup is not None:
            self._wakeup.cancel()
        now = self._store.ports.clock.now_ms()
        due = max(min(now + delay_ms, self._until_ms), now + 1)
        self._wakeup = self._store.ports.wakeups.call_at(due, self._beat)

    def _beat(self) -> None:
        if self.is_over:
            return
        if not self.alive:
            # The leader may have ended it by now: its users must not rely on it any more.
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
    """The leader's knowledge of when each session was heard of last."""

    def __init__(self, store: Store, confirmation: Confirmation) -> None:
        self._store = store
        self._confirmation = confirmation
        self._deadlines: dict[int, float] = {}
        self._ending: set[int] = set()
        """Their end was proposed; it may be committed at any time."""
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
        """Count no more."""
        self.on_leader(False)
        if self._wakeup is not None:
            self._wakeup.cancel()

    def touch(self, session: int, on_done: Callable[[Any], None]) -> None:
        """A sign of life; `on_done` gets whether the session lives, or a ``ProposalError``."""
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
        if self._store.leads:  # else another leader may count, and take the end from this one
            self._end_silent(now)
        due = now + max(min(sessions.values(), default=LOOK_MS_MAX * 10) / 10, 5.0)
        self._wakeup = self._store.ports.wakeups.call_at(min(due, now + LOOK_MS_MAX), self._check)

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
