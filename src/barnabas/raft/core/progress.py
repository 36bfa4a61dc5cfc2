"""A leader's knowledge of the others: how far each replica is, who still follows, who waits.

Mutable, since every fetch writes here; owned by one `Leader` state and gone with it. Times are
the machine's milliseconds.

Source: Kafka's ``LeaderState``.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.raft.core.messages import FetchRequest, ReplicaPosition
from barnabas.raft.core.quorum_math import high_watermark, majority
from barnabas.raft.core.voters import ReplicaKey, VoterSet

OBSERVER_SESSION_MS = 300_000
"""An observer that has not fetched for this long is forgotten."""
OBSERVERS_MAX = 10_000
"""Observers remembered at a time; one more displaces the one that has been silent for longest."""
CHECK_QUORUM_FACTOR = 1.5
"""Multiple of the fetch time-out: how long a leader continues without a majority that fetches."""


@dataclass(slots=True)
class ReplicaProgress:
    """One replica's position."""

    key: ReplicaKey
    end_offset: int = -1
    last_fetch_ms: float | None = None
    last_caught_up_ms: float | None = None
    last_fetch_leader_end: int = -1
    """The leader's end offset when this replica fetched last."""
    acknowledged: bool = False
    """Whether it knows who leads this epoch."""
    begin_sent_ms: float = float("-inf")


@dataclass(slots=True)
class PendingFetch:
    """A fetch that waits for something new."""

    ticket: int
    request: FetchRequest
    deadline_ms: float


class ReplicaProgressTable:
    """Progress of voters and observers, pending fetches, and the check of the quorum."""

    __slots__ = (
        "_enough",
        "check_deadline_ms",
        "check_ms",
        "fetched",
        "me",
        "observers",
        "pending",
        "voters",
    )

    def __init__(
        self, me: ReplicaKey, voters: VoterSet, fetch_timeout_ms: float, now_ms: float
    ) -> None:
        self.me = me
        self.voters: dict[int, ReplicaProgress] = {}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self.pending: dict[int, PendingFetch] = {}
        """The fetches that wait, by ticket."""
        self.check_ms = fetch_timeout_ms * CHECK_QUORUM_FACTOR
        self.check_deadline_ms = now_ms + self.check_ms
        self.fetched: set[int] = set()
        """Voters that fetched since the check's deadline was set."""
        self._enough = 1
        """So many of them are a majority, with this replica where it votes."""
        self.set_voters(voters, now_ms)

    def __repr__(self) -> str:
        ends = {node: progress.end_offset for node, progress in self.voters.items()}
        count = f"{len(self.observers)} observers, {len(self.pending)} pending"
        return f"ReplicaProgressTable(voters {ends}, {count})"

    def set_voters(self, voters: VoterSet, now_ms: float) -> None:
        """The voter set changed: a former observer keeps its progress. A leader that was the only voter gives
        the other voters the whole time-out from now for their first fetch."""
        if self._is_sole_voter:
            self.check_deadline_ms = now_ms + self.check_ms
        before = {progress.key: progress for progress in self.voters.values()}
        self.voters = {}
        for node in voters.nodes.values():
            key = next((k for k in before if k.matches(node.key)), None)
            progress = before.pop(key) if key is not None else self._promoted(node.key)
            progress.key = node.key
            self.voters[node.key.id] = progress
        for key, progress in before.items():
            if key.id != self.me.id:
                self.observers[key] = progress
        own = self.voters.get(self.me.id)
        if own is not None:
            own.acknowledged = True
        self._enough = majority(len(self.voters)) - (own is not None)
        self.fetched &= self.voters.keys()

    @property
    def _is_sole_voter(self) -> bool:
        return len(self.voters) == 1 and self.me.id in self.voters

    def _promoted(self, key: ReplicaKey) -> ReplicaProgress:
        known = next((k for k in self.observers if k.matches(key)), None)
        return self.observers.pop(known) if known is not None else ReplicaProgress(key)

    def progress_of(self, key: ReplicaKey) -> ReplicaProgress:
        """The progress of a voter, or of an observer, which is remembered from now on."""
        voter = self.voter_of(key)
        if voter is not None:
            return voter
        known = self.observers.get(key)
        if known is None:
            if len(self.observers) >= OBSERVERS_MAX:
                silent = min(self.observers.values(), key=lambda p: p.last_fetch_ms or 0.0)
                del self.observers[silent.key]
            known = self.observers[key] = ReplicaProgress(key)
        return known

    def voter_of(self, key: ReplicaKey) -> ReplicaProgress | None:
        """The voter that `key` is, where it is one."""
        progress = self.voters.get(key.id)
        return progress if progress is not None and progress.key.admits(key) else None

    def on_fetch(self, key: ReplicaKey, offset: int, leader_end: int, now_ms: float) -> bool:
        """`key` has everything before `offset` on disk. Whether it is a voter."""
        voter = self.voter_of(key)
        progress = voter or self.progress_of(key)
        if offset >= leader_end:
            progress.last_caught_up_ms = now_ms
        elif progress.last_fetch_ms is not None and offset >= progress.last_fetch_leader_end:
            progress.last_caught_up_ms = max(
                progress.last_caught_up_ms or progress.last_fetch_ms, progress.last_fetch_ms
            )
        progress.end_offset = offset
        progress.last_fetch_leader_end = leader_end
        self._heard_of(progress, now_ms, is_voter=voter is not None)
        return voter is not None

    def on_contact(self, key: ReplicaKey, now_ms: float) -> None:
        """`key` fetched, records or a snapshot: it follows. Who observes is known from its first fetch of
        records on that are in the log."""
        voter = self.voter_of(key)
        progress = voter or self.observers.get(key)
        if progress is not None:
            self._heard_of(progress, now_ms, is_voter=voter is not None)

    def _heard_of(self, progress: ReplicaProgress, now_ms: float, *, is_voter: bool) -> None:
        progress.last_fetch_ms = now_ms
        progress.acknowledged = True
        if not is_voter:
            return
        self.fetched.add(progress.key.id)
        if len(self.fetched) >= self._enough:
            self.fetched.clear()
            self.check_deadline_ms = now_ms + self.check_ms

    def silent(self, voters: VoterSet, now_ms: float) -> list[int]:
        """Those of `voters` that do not follow at present."""
        found = []
        for node in voters.nodes.values():
            last = now_ms if node.key.id == self.me.id else self._last_fetch_ms(node.key)
            if last is None or now_ms - last > self.check_ms:
                found.append(node.key.id)
        return found

    def _last_fetch_ms(self, key: ReplicaKey) -> float | None:
        progress = self.voters.get(key.id) or self.observers.get(key)
        return progress.last_fetch_ms if progress is not None else None

    def silence_ms(self, now_ms: float) -> float:
        """How long ago a majority had fetched; 0 for the only voter."""
        return 0.0 if self._is_sole_voter else now_ms - (self.check_deadline_ms - self.check_ms)

    def quorum_lost(self, now_ms: float) -> bool:
        """Whether a majority has fallen silent. A leader that is the only voter never loses its quorum."""
        return not self._is_sole_voter and now_ms >= self.check_deadline_ms

    def high_watermark(self, own_end: int, start_offset: int, present: int) -> int:
        """From the voters' positions; the leader's own is what is durable (`own_end`)."""
        if self.me.id in self.voters:
            self.voters[self.me.id].end_offset = own_end
        ends = [progress.end_offset for progress in self.voters.values()]
        return high_watermark(ends, start_offset, present)

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the most complete first."""
        others = [p for p in self.voters.values() if p.key.id != self.me.id]
        others.sort(key=lambda p: (-p.end_offset, p.key.id))
        return tuple(p.key for p in others)

    def forget_silent_observers(self, now_ms: float) -> None:
        self.observers = {
            key: progress
            for key, progress in self.observers.items()
            if now_ms - (progress.last_fetch_ms or 0.0) < OBSERVER_SESSION_MS
        }

    def positions(self, own_end: int, now_ms: float) -> tuple[tuple[ReplicaPosition, ...], ...]:
        """(voters, observers), as DescribeQuorum reports them."""
        self.forget_silent_observers(now_ms)
        voters = tuple(self._position(p, own_end, now_ms) for _, p in sorted(self.voters.items()))
        observers = tuple(
            self._position(p, own_end, now_ms) for _, p in sorted(self.observers.items())
        )
        return voters, observers

    def _position(self, progress: ReplicaProgress, own_end: int, now_ms: float) -> ReplicaPosition:
        if progress.key.id == self.me.id:
            return ReplicaPosition(progress.key, own_end, now_ms, now_ms)
        return ReplicaPosition(
            progress.key, progress.end_offset, progress.last_fetch_ms, progress.last_caught_up_ms
        )
