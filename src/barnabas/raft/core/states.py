"""The states of a replica, one frozen class each; a class has only the moves that are legal in it.

=============  ====================================================================================
from           to
=============  ====================================================================================
Unattached     Unattached (newer epoch) · Voted · Prospective · Follower · Observer
Voted          Unattached (newer epoch) · Prospective · Follower · Observer
Prospective    Unattached · Voted · Candidate (next epoch, won the pre-vote) · Follower · Observer
Candidate      Unattached (newer epoch) · Prospective (lost) · Leader (won) · Follower · Observer
Leader         Unattached (newer epoch) · Resigned · Follower (newer epoch)
Follower       Unattached (newer epoch) · Prospective · Follower (newer epoch) · Observer
Resigned       Unattached (newer epoch) · Follower · Observer
Observer       Observer · Unattached, Voted, Follower (became a voter)
=============  ====================================================================================

Epochs never go back: a move to an older one raises `IllegalMoveError`, as does a second vote in one
epoch or a second leader for it. *Voted* is Kafka's Unattached that granted its vote. An *Observer* is
a replica outside the present voter set; it grants votes too and stores them, since membership only
decides who may be a candidate (KIP-853). Source: KIP-595, KIP-996; Kafka's ``QuorumState``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

from barnabas.raft.core.election_state import NO_LEADER, ElectionState
from barnabas.raft.core.progress import ReplicaProgressTable
from barnabas.raft.core.quorum_math import Tally
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import Endpoint


class IllegalMoveError(Exception):
    """A move that the protocol forbids: a bug, never an answer to give."""


def _check_newer(present: int, epoch: int) -> None:
    if epoch <= present:
        raise IllegalMoveError(f"epoch {epoch} is not newer than {present}")


def _check_leader(epoch: int, leader_id: int, new_epoch: int, new_leader: int) -> None:
    """A leader of an epoch stays its only one."""
    if new_epoch < epoch:
        raise IllegalMoveError(f"epoch {new_epoch} is older than {epoch}")
    if new_leader < 0:
        raise IllegalMoveError(f"a follower of no leader in epoch {new_epoch}")
    if new_epoch == epoch and leader_id not in (NO_LEADER, new_leader):
        raise IllegalMoveError(f"leader {new_leader} of epoch {epoch}, which {leader_id} leads")


class _Bound:
    """To an epoch: what a newer one ends."""

    __slots__ = ()
    epoch: int

    @property
    def election(self) -> ElectionState:
        """The part of this state that is persisted."""
        raise NotImplementedError

    def to_unattached(self, epoch: int, deadline_ms: float) -> Unattached:
        _check_newer(self.epoch, epoch)
        return Unattached(epoch, deadline_ms)


class _Open(_Bound):
    """Without a leader that is followed: any leader of the epoch may come."""

    __slots__ = ()

    def to_follower(
        self, epoch: int, leader_id: int, endpoint: Endpoint, deadline_ms: float
    ) -> Follower:
        present = self.election
        _check_leader(self.epoch, present.leader_id, epoch, leader_id)
        voted = present.voted if epoch == self.epoch else None
        return Follower(epoch, deadline_ms, leader_id, endpoint, voted=voted)

    def to_observer(self, deadline_ms: float) -> Observer:
        present = self.election
        return Observer(self.epoch, deadline_ms, leader_id=present.leader_id, voted=present.voted)


class _Fetching:
    """The common part of a Follower and an Observer: they fetch from a leader that answers, or does not."""

    __slots__ = ()
    deadline_ms: float

    def _changed(self, **fields: object) -> Self:
        return replace(self, **fields)  # type: ignore[type-var]

    def heard(self, deadline_ms: float) -> Self:
        """The leader answered."""
        return self._changed(deadline_ms=deadline_ms, has_fetched=True)

    def suspecting_leader(self, deadline_ms: float) -> Self:
        """The leader leads no more or its process is gone: act at `deadline_ms`, and let others stand."""
        return self._changed(deadline_ms=min(deadline_ms, self.deadline_ms), has_fetched=False)

    def dismissed(self, deadline_ms: float) -> Self:
        """The leader said goodbye: act at `deadline_ms`, when it is this replica's turn, not before."""
        return self._changed(deadline_ms=deadline_ms, has_fetched=False)

    def fetching_snapshot(self, snapshot: Following | None) -> Self:
        return self._changed(snapshot=snapshot)

    def at_endpoint(self, endpoint: Endpoint) -> Self:
        return self._changed(leader_endpoint=endpoint)


@dataclass(frozen=True, slots=True)
class Unattached(_Open):
    """Knows no leader, or not where it is; has not voted in this epoch."""

    epoch: int
    deadline_ms: float
    """When to try something else: stand for election, ask another server."""
    leader_id: int = NO_LEADER
    retries: int = 0
    """Elections that failed since there was a leader."""

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id)

    def to_voted(self, candidate: ReplicaKey, deadline_ms: float) -> Voted:
        if self.leader_id != NO_LEADER:
            raise IllegalMoveError(f"a vote in epoch {self.epoch}, which {self.leader_id} leads")
        return Voted(self.epoch, deadline_ms, candidate, self.retries)

    def to_prospective(self, tally: Tally, deadline_ms: float) -> Prospective:
        return Prospective(self.epoch, deadline_ms, tally, self.retries, leader_id=self.leader_id)


@dataclass(frozen=True, slots=True)
class Voted(_Open):
    """Granted its vote to `voted` in this epoch and waits for the outcome."""

    epoch: int
    deadline_ms: float
    voted: ReplicaKey
    retries: int = 0

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, NO_LEADER, self.voted)

    def to_prospective(self, tally: Tally, deadline_ms: float) -> Prospective:
        return Prospective(self.epoch, deadline_ms, tally, self.retries, voted=self.voted)


@dataclass(frozen=True, slots=True)
class Prospective(_Open):
    """Asks whether it could win (pre-vote, KIP-996). Its epoch is still the old one and it may still
    vote for another replica in it."""

    epoch: int
    deadline_ms: float
    tally: Tally
    retries: int
    leader_id: int = NO_LEADER
    leader_endpoint: Endpoint | None = None
    voted: ReplicaKey | None = None

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def counted(self, voter: int, granted: bool) -> Prospective:
        return replace(self, tally=self.tally.with_vote(voter, granted))

    def to_candidate(self, me: ReplicaKey, tally: Tally, deadline_ms: float) -> Candidate:
        if not self.tally.is_won:
            raise IllegalMoveError(f"candidate without a won pre-vote: {self.tally}")
        return Candidate(
            self.epoch + 1, deadline_ms, tally.with_vote(me.id, True), me, self.retries
        )

    def to_voted(self, candidate: ReplicaKey, deadline_ms: float) -> Voted:
        if self.voted not in (None, candidate) or self.leader_id != NO_LEADER:
            raise IllegalMoveError(f"a second vote in epoch {self.epoch}")
        return Voted(self.epoch, deadline_ms, candidate, self.retries)

    def to_loser(self, deadline_ms: float) -> Unattached | Voted:
        """The pre-vote is lost, or no voter answered: wait for the next try."""
        if self.voted is not None:
            return Voted(self.epoch, deadline_ms, self.voted, self.retries + 1)
        return Unattached(self.epoch, deadline_ms, self.leader_id, self.retries + 1)


@dataclass(frozen=True, slots=True)
class Candidate(_Open):
    """Has voted for itself and asks the others for their votes."""

    epoch: int
    deadline_ms: float
    tally: Tally
    voted: ReplicaKey
    retries: int
    backing_off: bool = False
    """Lost already: `deadline_ms` is when to try again."""

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, NO_LEADER, self.voted)

    def counted(self, voter: int, granted: bool) -> Candidate:
        return replace(self, tally=self.tally.with_vote(voter, granted))

    def backed_off(self, deadline_ms: float) -> Candidate:
        return replace(self, backing_off=True, deadline_ms=deadline_ms)

    def to_leader(self, table: ReplicaProgressTable, start_offset: int) -> Leader:
        if not self.tally.is_won:
            raise IllegalMoveError(f"leader without a majority: {self.tally}")
        return Leader(self.epoch, start_offset, self.voted, self.tally.granted, table)

    def to_prospective(self, tally: Tally, deadline_ms: float) -> Prospective:
        return Prospective(self.epoch, deadline_ms, tally, self.retries + 1, voted=self.voted)


@dataclass(frozen=True, slots=True)
class Leader(_Bound):
    """Leads `epoch` from the record at `start_offset` on. `progress_table` is what it knows of the others."""

    epoch: int
    start_offset: int
    me: ReplicaKey
    granting: frozenset[int]
    progress_table: ReplicaProgressTable = field(compare=False)

    @property
    def leader_id(self) -> int:
        return self.me.id

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.me.id, self.me)

    def to_resigned(self, successors: tuple[ReplicaKey, ...], deadline_ms: float) -> Resigned:
        return Resigned(self.epoch, deadline_ms, self.me, successors)

    def to_follower(
        self, epoch: int, leader_id: int, endpoint: Endpoint, deadline_ms: float
    ) -> Follower:
        _check_newer(self.epoch, epoch)
        _check_leader(self.epoch, self.me.id, epoch, leader_id)
        return Follower(epoch, deadline_ms, leader_id, endpoint)


@dataclass(frozen=True, slots=True)
class Following:
    """A snapshot on its way: `position` bytes of it are here."""

    id: OffsetAndEpoch
    position: int = 0
    installing: bool = False


@dataclass(frozen=True, slots=True)
class Follower(_Fetching, _Bound):
    """Follows a leader as a voter: fetches from it and starts an election when the leader falls silent."""

    epoch: int
    deadline_ms: float
    """When the leader counts as gone."""
    leader_id: int
    leader_endpoint: Endpoint
    has_fetched: bool = False
    """Whether the leader has answered in this epoch: then no pre-vote is granted."""
    voted: ReplicaKey | None = None
    snapshot: Following | None = None

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def to_prospective(self, tally: Tally, deadline_ms: float) -> Prospective:
        return Prospective(
            self.epoch, deadline_ms, tally, 0, self.leader_id, self.leader_endpoint, self.voted
        )

    def to_follower(
        self, epoch: int, leader_id: int, endpoint: Endpoint, deadline_ms: float
    ) -> Follower:
        _check_newer(self.epoch, epoch)
        _check_leader(self.epoch, self.leader_id, epoch, leader_id)
        return Follower(epoch, deadline_ms, leader_id, endpoint)

    def to_observer(self, deadline_ms: float) -> Observer:
        return Observer(
            self.epoch, deadline_ms, self.leader_id, self.leader_endpoint, self.voted, self.snapshot
        )


@dataclass(frozen=True, slots=True)
class Resigned(_Bound):
    """Led this epoch and does not any more: tells the others, grants no vote in it."""

    epoch: int
    deadline_ms: float
    me: ReplicaKey
    successors: tuple[ReplicaKey, ...] = ()
    notified: frozenset[int] = frozenset()

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.me.id, self.me)

    def acknowledged(self, voter: int) -> Resigned:
        return replace(self, notified=self.notified | {voter})

    def to_follower(
        self, epoch: int, leader_id: int, endpoint: Endpoint, deadline_ms: float
    ) -> Follower:
        _check_newer(self.epoch, epoch)
        return Follower(epoch, deadline_ms, leader_id, endpoint)

    def to_observer(self, deadline_ms: float) -> Observer:
        return Observer(self.epoch, deadline_ms, voted=self.me)


@dataclass(frozen=True, slots=True)
class Observer(_Fetching):
    """Not a voter: fetches from the leader as soon as it knows one, and never becomes a candidate."""

    epoch: int
    deadline_ms: float
    leader_id: int = NO_LEADER
    leader_endpoint: Endpoint | None = None
    voted: ReplicaKey | None = None
    snapshot: Following | None = None
    has_fetched: bool = False

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def searching(self, deadline_ms: float) -> Observer:
        """The leader is silent: keep its name, ask others where the leader is."""
        return replace(self, leader_endpoint=None, deadline_ms=deadline_ms, snapshot=None)

    def with_vote(self, candidate: ReplicaKey) -> Observer:
        if self.voted not in (None, candidate) or self.leader_id != NO_LEADER:
            raise IllegalMoveError(f"a second vote in epoch {self.epoch}")
        return replace(self, voted=candidate)

    def at_epoch(self, epoch: int, deadline_ms: float) -> Observer:
        _check_newer(self.epoch, epoch)
        return Observer(epoch, deadline_ms)

    def to_follower(
        self, epoch: int, leader_id: int, endpoint: Endpoint, deadline_ms: float
    ) -> Observer:
        """Observes that leader; it stays an observer."""
        _check_leader(self.epoch, self.leader_id, epoch, leader_id)
        voted = self.voted if epoch == self.epoch else None
        return Observer(epoch, deadline_ms, leader_id, endpoint, voted)

    def to_voter(self, deadline_ms: float) -> Unattached | Voted | Follower:
        """Became a voter by a record of the log."""
        if self.leader_endpoint is not None:
            return Follower(
                self.epoch,
                deadline_ms,
                self.leader_id,
                self.leader_endpoint,
                self.has_fetched,
                self.voted,
                self.snapshot,
            )
        if self.voted is not None:
            return Voted(self.epoch, deadline_ms, self.voted)
        return Unattached(self.epoch, deadline_ms, self.leader_id)


State: TypeAlias = (
    Unattached | Voted | Prospective | Candidate | Leader | Follower | Resigned | Observer
)
