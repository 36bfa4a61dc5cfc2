"""Whether this replica still led when a caller asked: a majority knew of no newer epoch after that.

A leader that was cut off or paused believes in itself for a while, when another may lead already; what
it says of a session in that time must not count. So it asks the other voters' stores for their epochs.
A voter that elects a newer leader after its answer does so after the question, and that leader counts from
then. Questions that come while one has just gone out share the next: the others are asked a hundred times a
second at most, and only while sessions are confirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.ports import call_all
from barnabas.raft.recipes.calling import Answer, ProposalError

if TYPE_CHECKING:
    from barnabas.raft.recipes.store import Store

PACE_MS = 10.0
TIMEOUT_MS = 1_000.0

OnConfirmed = Callable[[Any], None]


class Confirmation:
    """The confirmation of one replica's leadership; `ask` answers True or a ``ProposalError``, each time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: list[OnConfirmed] = []
        self._begun_ms = float("-inf")

    def ask(self, on_done: OnConfirmed) -> None:
        """This replica leads, as far as it knows."""
        self._next.append(on_done)
        if len(self._next) == 1:
            self._store.ports.wakeups.call_at(self._begun_ms + PACE_MS, self._begin)

    def _begin(self) -> None:
        self._begun_ms = self._store.ports.clock.now_ms()
        waiting, self._next = self._next, []
        replica = self._store.replica
        if not self._store.leads:  # the others would confirm an epoch that is another's
            lost = ProposalError("this node does not lead any more", definite=True)
            call_all(partial(on_done, lost) for on_done in waiting)
            return
        _Round(replica.epoch, replica.node_id, sorted(replica.voter_endpoints()), waiting).begin(
            self._store
        )


class _Round:
    """One question to all other voters."""

    def __init__(self, epoch: int, me: int, voters: list[int], waiting: list[OnConfirmed]) -> None:
        self._epoch = epoch
        self._others = [voter for voter in voters if voter != me]
        self._missing = len(voters) // 2 + 1 - (me in voters)
        """So many others must know no newer epoch."""
        self._open = len(self._others)
        self._waiting = waiting

    def begin(self, store: Store) -> None:
        if self._missing == 0:
            self._finish(True)
        for voter in self._others:
            store.ask_epoch(voter, self._answered, TIMEOUT_MS)

    def _answered(self, answer: Answer | None) -> None:
        self._open -= 1
        epoch = answer.get("result") if answer is not None else None
        if isinstance(epoch, int) and epoch <= self._epoch:
            self._missing -= 1
        if self._missing == 0:
            self._finish(True)
        elif self._missing > self._open:
            self._finish(ProposalError("no majority confirms that this node leads", definite=True))

    def _finish(self, result: Any) -> None:
        waiting, self._waiting = self._waiting, []
        call_all(partial(on_done, result) for on_done in waiting)
