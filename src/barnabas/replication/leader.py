"""The leader's state of one partition: its followers' progress, the ISR and the high watermark.

Owns the ISR's state, each follower's position, and the rules for the high watermark and for joining and
leaving the ISR. It sends nothing: the caller sends an :class:`IsrProposal` to the controller, and passes the
answer to `on_committed`, `on_refused` or `on_metadata`.

Invariants: all records below `high_watermark` are on every member of the maximal ISR; there is no new high
watermark while the committed ISR is smaller than min.insync.replicas (KIP-966); at most one proposal is in
flight.

Source: Kafka's Partition and Replica; KIP-497, KIP-841, KIP-903, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.replication.isr import RECOVERED, CommittedIsr, IsrState, PendingExpand, PendingShrink

UNKNOWN = -1
NEVER = float("-inf")

Eligible = Callable[[int, int], bool]
"""(broker, broker epoch of its last fetch or -1) → whether it may be in an ISR: registered, not
fenced, not shutting down, and still the incarnation that fetched."""


class FollowerProgress:
    """One follower's position. `log_end_offset` is the offset of its last fetch: it has all records
    before."""

    __slots__ = (
        "broker",
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker: int, last_caught_up_ms: float = NEVER) -> None:
        self.broker = broker
        self.broker_epoch = UNKNOWN
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.last_caught_up_ms = last_caught_up_ms
        """The last time at which it had all records that the leader had at that time."""
        self.last_fetch_ms = NEVER
        self.last_fetch_leader_end = UNKNOWN

    def is_caught_up(self, leader_end: int, now_ms: float, lag_ms_max: float) -> bool:
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_ms_max

    def __repr__(self) -> str:
        return f"FollowerProgress({self.broker} at {self.log_end_offset})"


class IsrProposal(NamedTuple):
    """A request for another ISR, valid only for this leader epoch and partition epoch."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Parallel to `isr`; -1 if unknown (the caller fills in the leader's own)."""
    recovery: int
    state: PendingExpand | PendingShrink


class LeaderState:
    """One leadership: from one leader epoch to the next."""

    __slots__ = (
        "_outside",
        "_waited_for",
        "epoch",
        "epoch_start_offset",
        "followers",
        "isr_state",
        "me",
        "partition_epoch",
        "replicas",
    )

    def __init__(
        self,
        me: int,
        epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        recovery: int,
        epoch_start_offset: int,
        now_ms: float,
    ) -> None:
        """`epoch_start_offset` is the log end offset when this leadership began. Members of `isr` count as
        caught up at `now_ms`, so they have the whole replica.lag.time.max.ms to fetch."""
        self.me = me
        self.epoch = epoch
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self.epoch_start_offset = epoch_start_offset
        self.isr_state: IsrState = CommittedIsr(tuple(isr), recovery)
        self.followers = {
            broker: FollowerProgress(broker, now_ms if broker in isr else NEVER)
            for broker in self.replicas
            if broker != me
        }
        self._waited_for: tuple[FollowerProgress, ...] = ()
        self._outside: tuple[FollowerProgress, ...] = ()
        self._sort_followers()

    def _sort_followers(self) -> None:
        maximal = self.isr_state.maximal
        followers = self.followers.values()
        self._waited_for = tuple(f for f in followers if f.broker in maximal)
        self._outside = tuple(f for f in followers if f.broker not in maximal)

    def _become(self, state: IsrState) -> None:
        self.isr_state = state
        self._sort_followers()

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self.isr_state.isr

    # -- followers -------------------------------------------------------------------------------

    def on_follower_fetch(
        self,
        follower: FollowerProgress,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end: int,
        now_ms: float,
    ) -> bool:
        """A follower fetches at `fetch_offset`, so it has all records before. Returns whether it moved."""
        if fetch_offset >= leader_end:
            follower.last_caught_up_ms = now_ms
        elif fetch_offset >= follower.last_fetch_leader_end != UNKNOWN:
            # It now has all records that the leader had at its previous fetch.
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        moved = fetch_offset != follower.log_end_offset
        follower.log_end_offset = fetch_offset
        follower.log_start_offset = log_start_offset
        follower.last_fetch_leader_end = leader_end
        follower.last_fetch_ms = now_ms
        follower.broker_epoch = broker_epoch
        return moved

    def touch(self, follower: FollowerProgress, leader_end: int, now_ms: float) -> None:
        """A fetch of the follower's session that does not name this partition: its offset did not change."""
        if follower.log_end_offset >= leader_end:
            follower.last_caught_up_ms = now_ms
        elif follower.log_end_offset >= follower.last_fetch_leader_end != UNKNOWN:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        follower.last_fetch_leader_end = leader_end
        follower.last_fetch_ms = now_ms

    # -- high watermark --------------------------------------------------------------------------

    def is_under_min_isr(self, min_isr: int) -> bool:
        size = len(self.isr_state.isr)
        return size < min_isr and size <= len(self.followers)

    def high_watermark(
        self, leader_end: int, min_isr: int, now_ms: float, lag_ms_max: float, eligible: Eligible
    ) -> int | None:
        """The offset below which all members of the maximal ISR have all records, and also every replica that
        is about to join it. None while the committed ISR is smaller than `min_isr`."""
        if self.is_under_min_isr(min_isr):
            return None
        mark = leader_end
        for follower in self._waited_for:
            if follower.log_end_offset < mark:
                mark = follower.log_end_offset
        for follower in self._outside:
            if (
                follower.log_end_offset < mark
                and follower.is_caught_up(leader_end, now_ms, lag_ms_max)
                and eligible(follower.broker, follower.broker_epoch)
            ):
                mark = follower.log_end_offset
        return mark

    @property
    def low_watermark(self) -> int | None:
        """The smallest log start offset of all followers; None if one is unknown."""
        starts = [follower.log_start_offset for follower in self.followers.values()]
        return None if UNKNOWN in starts else min(starts, default=UNKNOWN)

    # -- joining and leaving the ISR -------------------------------------------------------------

    def propose_expand(
        self, follower: FollowerProgress, high_watermark: int, eligible: Eligible
    ) -> IsrProposal | None:
        """Propose to add `follower` if it has caught up with the high watermark and with the start of this
        leader epoch (before that it may lack records below an earlier high watermark)."""
        state = self.isr_state
        if (
            state.in_flight
            or follower.broker in state.isr
            or follower.log_end_offset < high_watermark
            or follower.log_end_offset < self.epoch_start_offset
            or not eligible(follower.broker, follower.broker_epoch)
        ):
            return None
        return self._propose(PendingExpand(state.committed, follower.broker))

    def laggards(self, leader_end: int, now_ms: float, lag_ms_max: float) -> tuple[int, ...]:
        """Members of the ISR that have not been caught up for more than `lag_ms_max`."""
        return tuple(
            follower.broker
            for follower in self._waited_for
            if follower.broker in self.isr_state.isr
            and not follower.is_caught_up(leader_end, now_ms, lag_ms_max)
        )

    def propose_shrink(
        self, leader_end: int, now_ms: float, lag_ms_max: float
    ) -> IsrProposal | None:
        """Propose to remove the laggards, if there are any and no proposal is in flight."""
        state = self.isr_state
        if state.in_flight:
            return None
        laggards = self.laggards(leader_end, now_ms, lag_ms_max)
        return self._propose(PendingShrink(state.committed, laggards)) if laggards else None

    def _propose(self, state: PendingExpand | PendingShrink) -> IsrProposal:
        self._become(state)
        isr = state.wanted
        assert isr, f"an ISR without members is the controller's alone to make: {self!r}"
        return IsrProposal(
            self.epoch,
            self.partition_epoch,
            isr,
            tuple(
                self.followers[broker].broker_epoch if broker in self.followers else UNKNOWN
                for broker in isr
            ),
            RECOVERED,
            state,
        )

    # -- the controller's answers ----------------------------------------------------------------

    def on_committed(
        self,
        proposal: IsrProposal,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        recovery: int,
    ) -> bool:
        """The controller accepted. Returns False if the answer is stale: newer metadata came first."""
        if (
            self.isr_state is not proposal.state
            or leader_epoch != self.epoch
            or partition_epoch < self.partition_epoch
        ):
            return False
        self.partition_epoch = partition_epoch
        self._become(CommittedIsr(tuple(isr), recovery))
        return True

    def on_refused(self, proposal: IsrProposal) -> bool:
        """The controller refused, so the committed ISR stays. Returns False if the answer is stale."""
        if self.isr_state is not proposal.state:
            return False
        self._become(proposal.state.committed)
        return True

    def on_metadata(
        self,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        recovery: int,
    ) -> bool:
        """The metadata log has a new state in the same leader epoch. Returns False if it is not newer."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        if tuple(replicas) != self.replicas:
            self.replicas = tuple(replicas)
            known = self.followers
            self.followers = {
                broker: known.get(broker) or FollowerProgress(broker)
                for broker in self.replicas
                if broker != self.me
            }
        self._become(CommittedIsr(tuple(isr), recovery))
        return True

    def validate(self) -> None:
        """Check invariants 6 and 7 of docs/invariants.md on the leader. Raises AssertionError."""
        state = self.isr_state
        assert set(state.committed.isr) <= set(state.maximal), (
            f"members are not waited for: {self!r}"
        )
        assert set(state.wanted) <= set(state.maximal), f"members are not waited for: {self!r}"
        assert self.followers.keys() == {*self.replicas} - {self.me}, repr(self)
        waited_for = {follower.broker for follower in self._waited_for}
        others = {follower.broker for follower in self._outside}
        assert waited_for == set(state.maximal) & self.followers.keys(), repr(self)
        assert others == self.followers.keys() - waited_for, repr(self)

    def describe(self) -> dict[str, object]:
        return {
            "leader_epoch": self.epoch,
            "partition_epoch": self.partition_epoch,
            "isr": list(self.isr),
            "state": type(self.isr_state).__name__,
            "followers": {f.broker: f.log_end_offset for f in self.followers.values()},
        }

    def __repr__(self) -> str:
        return f"LeaderState(epoch {self.epoch}, isr {self.isr_state}, {self.followers})"
