"""Fetch sessions: what a fetching peer need not repeat, and what it need not get again (KIP-227).

:class:`SessionCache` is the server's half. A session holds its partitions and, of those, the *dirty* ones:
with something the peer has not received yet. A response looks at the dirty partitions only, so
an idle session of thousands of partitions costs nothing. Whatever moves a partition (append, high
watermark, log start, leadership) marks its watchers dirty.

:class:`ClientSession` is a follower's half: which partitions the next request has to name.

Invariants: a partition whose answer was cut by a byte bound, or that has an error, stays dirty; those
not served come first next time. Sessions are at most `slots`.

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
"""One this long without use goes when another comes, also where there is room: each connection that is lost
leaves one, and all that watch a partition cost something with every append."""

PartitionKey = tuple[Any, int]
"""(topic id, or topic name before Fetch v13; partition)."""
P = TypeVar("P")


def next_epoch(epoch: int) -> int:
    """Epochs count from 1 and wrap to 1; -1 stays the mark of no session."""
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
        """The role's own object; None where this broker has no such replica."""
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
        """Of the access control entries by which the last fetch was judged."""
        self.epoch = INITIAL_EPOCH
        self.follower_id = follower_id
        """The broker that fetches; -1 for a consumer."""
        self.is_follower = follower_id >= 0
        self.sees_all = self.is_follower or follower_id == DEBUGGING_REPLICA
        """Reads to the end of the log, not only what is committed."""
        self.broker_epoch = -1
        """Of the follower's incarnation, by its last fetch (KIP-903)."""
        self.uses_ids = uses_ids
        self.created_ms = now_ms
        self.last_fetch_ms = now_ms
        self.partitions: dict[PartitionKey, SessionPartition[P]] = {}
        self.dirty: dict[SessionPartition[P], None] = {}
        self.delayed_fetch: Any = None
        """The request that waits for something to tell."""

    def mark(self, partition: SessionPartition[P]) -> None:
        """There may be something to tell of `partition`."""
        self.dirty[partition] = None

    def later(self, partition: SessionPartition[P]) -> None:
        """Told in part: the others first."""
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
    """All sessions of a broker, in order of last use. Followers' are not evicted for consumers'."""

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
        """Used now: last in line for eviction."""
        session.last_fetch_ms = now_ms
        if self._sessions.pop(session.id, None) is not None:
            self._sessions[session.id] = session

    def add(
        self, session: FetchSession[P], session_id: int, now_ms: float
    ) -> tuple[bool, FetchSession[P] | None]:
        """Keep `session` under the random `session_id`: (whether it was kept, whom it displaced)."""
        if session_id in self._sessions or session_id <= NO_SESSION:
            return False, None
        oldest = next(iter(self._sessions.values()), None)
        displaced = None
        if len(self._sessions) >= self.slots:
            displaced = self._victim(session, oldest, now_ms)
            if displaced is None:
                return False, None
        elif oldest is not None and now_ms - oldest.last_fetch_ms > UNUSED_MS_MAX:
            displaced = oldest
        if displaced is not None:
            del self._sessions[displaced.id]
            self.evictions += 1
        session.id = session_id
        session.epoch = 1
        self._sessions[session_id] = session
        return True, displaced

    def _victim(
        self, arriving: FetchSession[P], oldest: FetchSession[P] | None, now_ms: float
    ) -> FetchSession[P] | None:
        """The session unused for longest where that is long enough; else, for a follower or a larger
        session, one that matters less."""
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
    """What a follower asks of one partition."""

    fetch_offset: int
    last_fetched_epoch: int
    leader_epoch: int
    log_start_offset: int


class SessionPlan(NamedTuple):
    """What a request names and forgets, and what the next one has to name."""

    named: dict[PartitionKey, WantedPartition]
    forgotten: list[PartitionKey]
    left: dict[PartitionKey, None]


class ClientSession:
    """A follower's memory of what its leader's session already knows."""

    __slots__ = ("_has_no_room", "_known", "epoch", "id")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._known: dict[PartitionKey, WantedPartition] = {}
        self._has_no_room = False
        """The leader keeps no session for this peer: every request has to name everything."""

    @property
    def is_full(self) -> bool:
        """The next request names everything."""
        return self.epoch == INITIAL_EPOCH

    def plan(
        self,
        wanted: dict[PartitionKey, WantedPartition],
        changed: Iterable[PartitionKey],
        most: int = 1 << 30,
    ) -> SessionPlan:
        """Given everything `wanted` and those of it, or gone from it, that may have changed since the
        last plan. At most `most` that the session does not know are named, the others with the next
        request; what it knows is named as soon as it moved, or the leader would tell it again."""
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
        """What the leader was last asked of one partition."""
        return self._known.get(key)

    def on_response(self, session_id: int) -> None:
        """The leader answered without a session error."""
        if session_id == NO_SESSION:
            # It has no room for a session: its answers count all the same, each to a full request.
            self.id, self.epoch = NO_SESSION, INITIAL_EPOCH
            self._has_no_room = True
        elif self.is_full:
            self.id, self.epoch = session_id, 1
            self._has_no_room = False
        else:
            self.epoch = next_epoch(self.epoch)

    def reset(self) -> None:
        """The next request is a full one, which begins a new session; the leader then drops session `id`."""
        self.epoch = INITIAL_EPOCH
        self._known = {}

    def forget(self) -> None:
        """The connection or the leader is gone, and the session with it."""
        self.id = NO_SESSION
        self.reset()
