"""Incremental fetch sessions (KIP-227).

:class:`SessionCache` is the server's side. A session has its partitions, and marks those *dirty* that have
something which the peer has not received. A response reads the dirty partitions only, so an idle session of
thousands of partitions costs nothing. A change of a partition (append, high watermark, log start, leadership)
marks it dirty in all sessions that have it.

:class:`ClientSession` is a follower's side: it knows which partitions the next request has to name.

Invariants: a partition whose answer was cut off by a byte limit, or that has an error, stays dirty;
partitions that were not served come first next time. There are at most `slots` sessions.

Source: Kafka's ``FetchSession``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas.limits import FetchBounds
from barnabas.replication.leader import FollowerProgress
from barnabas.types import DEBUGGING_REPLICA

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
EPOCH_MAX = 0x7FFFFFFF
DEFAULT_EVICTION_MS_MIN = FetchBounds().session_eviction_ms_min
UNUSED_MS_MAX = 600_000
"""A session unused for this long is evicted when another comes, even if there is room: every lost connection
leaves a session, and each session that has a partition costs time with every append to it."""

PartitionKey = tuple[Any, int]
"""(topic id, or topic name before Fetch v13; partition)."""
P = TypeVar("P")


def next_epoch(epoch: int) -> int:
    """The session epoch after `epoch`: epochs count from 1 and wrap to 1; -1 (no session) stays -1."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


class SessionPartition(Generic[P]):
    """One partition of a session: the last request's parameters and the last answer's marks."""

    __slots__ = (
        "fetch_offset",
        "follower",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start",
        "session",
        "topic",
    )

    def __init__(self, session: FetchSession[P], key: PartitionKey, topic: str) -> None:
        self.session = session
        self.key = key
        self.topic = topic
        self.partition: P | None = None
        """The broker's object of the partition; None if it has no such replica."""
        self.follower: FollowerProgress | None = None
        self.fetch_offset = 0
        self.max_bytes = 0
        self.leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        self.sent_high_watermark = -1
        self.sent_log_start = -1

    def __repr__(self) -> str:
        return (
            f"SessionPartition({self.topic or self.key[0]!r}-{self.key[1]} at {self.fetch_offset})"
        )


class FetchSession(Generic[P]):
    """One session, or (with id 0) the partitions of one full fetch."""

    __slots__ = (
        "access_version",
        "broker_epoch",
        "created_ms",
        "delayed_fetch",
        "dirty",
        "epoch",
        "follower_id",
        "id",
        "is_follower",
        "last_fetch_ms",
        "partitions",
        "sees_all",
        "uses_ids",
    )

    def __init__(self, follower_id: int, *, uses_ids: bool, now_ms: float) -> None:
        self.id = NO_SESSION
        self.access_version = -1
        """Version of the ACLs by which the last fetch was authorized."""
        self.epoch = INITIAL_EPOCH
        self.follower_id = follower_id
        """The broker that fetches; -1 for a consumer."""
        self.is_follower = follower_id >= 0
        self.sees_all = self.is_follower or follower_id == DEBUGGING_REPLICA
        """Whether it reads to the log end offset, not only to the high watermark."""
        self.broker_epoch = -1
        """The follower's broker epoch in its last fetch (KIP-903)."""
        self.uses_ids = uses_ids
        self.created_ms = now_ms
        self.last_fetch_ms = now_ms
        self.partitions: dict[PartitionKey, SessionPartition[P]] = {}
        self.dirty: dict[SessionPartition[P], None] = {}
        self.delayed_fetch: Any = None
        """The request of this session that waits in the purgatory."""

    def mark(self, partition: SessionPartition[P]) -> None:
        """Mark `partition` dirty: there may be something new for the peer."""
        self.dirty[partition] = None

    def later(self, partition: SessionPartition[P]) -> None:
        """Move `partition` behind the other dirty ones, since a part of it was served."""
        self.dirty.pop(partition, None)
        self.dirty[partition] = None

    def drop(self, key: PartitionKey) -> SessionPartition[P] | None:
        found = self.partitions.pop(key, None)
        if found is not None:
            self.dirty.pop(found, None)
        return found

    def __repr__(self) -> str:
        who = f"follower {self.follower_id}" if self.is_follower else "consumer"
        return (
            f"FetchSession({self.id}@{self.epoch} of {who}, {len(self.partitions)} partitions,"
            f" {len(self.dirty)} dirty)"
        )


class SessionCache(Generic[P]):
    """All sessions of a broker, in the order of their last use. A follower's session is not evicted for a
    consumer's."""

    def __init__(self, slots: int, eviction_ms_min: int = DEFAULT_EVICTION_MS_MIN) -> None:
        self.slots = slots
        self._eviction_ms_min = eviction_ms_min
        self._sessions: dict[int, FetchSession[P]] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession[P] | None:
        return self._sessions.get(session_id)

    def touch(self, session: FetchSession[P], now_ms: float) -> None:
        """Record a use of `session`, which makes it the last one to be evicted."""
        session.last_fetch_ms = now_ms
        if self._sessions.pop(session.id, None) is not None:
            self._sessions[session.id] = session

    def add(
        self, session: FetchSession[P], session_id: int, now_ms: float
    ) -> tuple[bool, FetchSession[P] | None]:
        """Keep `session` under the random `session_id`. Returns (whether it was kept, the evicted
        session)."""
        if session_id in self._sessions or session_id <= NO_SESSION:
            return False, None
        oldest = next(iter(self._sessions.values()), None)
        evicted = None
        if len(self._sessions) >= self.slots:
            evicted = self._victim(session, oldest, now_ms)
            if evicted is None:
                return False, None
        elif oldest is not None and now_ms - oldest.last_fetch_ms > UNUSED_MS_MAX:
            evicted = oldest
        if evicted is not None:
            del self._sessions[evicted.id]
            self.evictions += 1
        session.id = session_id
        session.epoch = 1
        self._sessions[session_id] = session
        return True, evicted

    def _victim(
        self, arriving: FetchSession[P], oldest: FetchSession[P] | None, now_ms: float
    ) -> FetchSession[P] | None:
        """The session to evict for `arriving`: the least recently used one if it is old enough; else, for a
        follower or a larger session, the smallest consumer's session. None if there is none."""
        if oldest is None:
            return None
        if now_ms - oldest.last_fetch_ms > self._eviction_ms_min:
            return oldest
        lesser = [
            session
            for session in self._sessions.values()
            if not session.is_follower
            and (
                arriving.is_follower
                or (
                    len(session.partitions) < len(arriving.partitions)
                    and now_ms - session.created_ms > self._eviction_ms_min
                )
            )
        ]
        return min(lesser, key=lambda s: len(s.partitions)) if lesser else None

    def remove(self, session_id: int) -> FetchSession[P] | None:
        return self._sessions.pop(session_id, None)

    def sessions(self) -> Iterable[FetchSession[P]]:
        return self._sessions.values()

    def validate(self) -> None:
        """Sessions fit their slots and mark only partitions that they have. Raises AssertionError."""
        assert len(self._sessions) <= self.slots, f"{len(self._sessions)} of {self.slots} sessions"
        for session_id, session in self._sessions.items():
            assert session.id == session_id, f"{session!r} is kept as {session_id}"
            for marked in session.dirty:
                known = session.partitions.get(marked.key)
                assert known is marked, f"{session!r} marks {marked!r}, which it does not have"


class WantedPartition(NamedTuple):
    """The fields of a follower's fetch request for one partition."""

    fetch_offset: int
    last_fetched_epoch: int
    leader_epoch: int
    log_start_offset: int


class SessionPlan(NamedTuple):
    """The partitions that a request names and forgets, and those left for the next request."""

    named: dict[PartitionKey, WantedPartition]
    forgotten: list[PartitionKey]
    left: dict[PartitionKey, None]


class ClientSession:
    """A follower's copy of what its leader's session has."""

    __slots__ = ("_has_no_room", "_known", "epoch", "id")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._known: dict[PartitionKey, WantedPartition] = {}
        self._has_no_room = False
        """The leader keeps no session for this peer, so every request names all partitions."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names all partitions."""
        return self.epoch == INITIAL_EPOCH

    def plan(
        self,
        wanted: dict[PartitionKey, WantedPartition],
        changed: Iterable[PartitionKey],
        most: int = 1 << 30,
    ) -> SessionPlan:
        """Plan the next request. `wanted` are all partitions; `changed` those that may have changed or gone
        since the last plan. Of partitions that the session does not have, at most `most` are named, the
        others with the next request. One that it has is named as soon as its offset moved, since the leader
        would send the same records again."""
        plan = SessionPlan({}, [], {})
        known = self._known
        if self.is_full:
            known.clear()
            changed = wanted
            if self._has_no_room:
                most = len(wanted)
        for key in changed:
            want = wanted.get(key)
            if want is None:
                if known.pop(key, None) is not None:
                    plan.forgotten.append(key)
            elif known.get(key) != want:
                if key in known or len(plan.named) < most:
                    plan.named[key] = known[key] = want
                else:
                    plan.left[key] = None
        return plan

    def asked(self, key: PartitionKey) -> WantedPartition | None:
        """The last requested fields of one partition; None if it is not in the session."""
        return self._known.get(key)

    def on_response(self, session_id: int) -> None:
        """The leader answered without a session error."""
        if session_id == NO_SESSION:
            # The leader has no room for a session: each request is a full one.
            self.id, self.epoch = NO_SESSION, INITIAL_EPOCH
            self._has_no_room = True
        elif self.is_full:
            self.id, self.epoch = session_id, 1
            self._has_no_room = False
        else:
            self.epoch = next_epoch(self.epoch)

    def reset(self) -> None:
        """Make the next request a full one, which starts a new session; the leader then drops session
        `id`."""
        self.epoch = INITIAL_EPOCH
        self._known = {}

    def forget(self) -> None:
        """The connection was lost, or the leader changed: the session is gone."""
        self.id = NO_SESSION
        self.reset()
