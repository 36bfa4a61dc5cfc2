"""Share sessions keep which partitions a member fetches, so that its requests need not name them.

A member has one session with each broker, on one connection, and ends it with epoch -1. The end of
the connection ends the session, and releases the records that its member holds there.

Source: ``ShareSessionCache``, ``ShareSession`` and ``SharePartitionManager.newContext`` of Apache Kafka
4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.replication.sessions import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError

Place = tuple[Uuid, int]
"""Topic id and partition."""


class Member(NamedTuple):
    """One member of one group."""

    group_id: str
    member_id: str


class ShareSession:
    """The partitions that one member fetches from this broker."""

    __slots__ = ("connection_id", "epoch", "member", "places")

    def __init__(self, member: Member, connection_id: int) -> None:
        self.member = member
        self.connection_id = connection_id
        self.epoch = next_epoch(INITIAL_EPOCH)
        """The epoch of its next request."""
        self.places: dict[Place, bool] = {}
        """The partitions in the order of their addition, and whether the next answer has to name
        each."""

    def __repr__(self) -> str:
        return f"ShareSession({self.member}, epoch {self.epoch}, {len(self.places)} partitions)"

    def update(self, added: Iterable[Place], forgotten: Iterable[Place]) -> None:
        for place in added:
            self.places.setdefault(place, True)
        for place in forgotten:
            self.places.pop(place, None)

    def is_reported(self, place: Place, *, records: bool, error: bool) -> bool:
        """Whether this answer has to name the partition. Also notes whether the next one has to."""
        must = records or error or self.places.get(place, False)
        if place in self.places:
            self.places[place] = error
            if records:  # the next fetch begins with the others
                self.places[place] = self.places.pop(place)
        return must


class ShareSessions:
    """All sessions of one broker."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[Member, ShareSession] = {}
        self._by_connection: dict[int, dict[Member, None]] = {}
        self._members_of: Counter[str] = Counter()
        """The number of sessions by group."""
        self.evictions = 0
        """The number of sessions that ended with their connection."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __repr__(self) -> str:
        return f"ShareSessions({len(self._sessions)} of {self._sessions_max})"

    def validate(self) -> None:
        """Raises AssertionError unless both indexes have exactly the sessions."""
        by_connection = {
            (connection_id, member)
            for connection_id, members in self._by_connection.items()
            for member in members
        }
        sessions = {(s.connection_id, member) for member, s in self._sessions.items()}
        assert by_connection == sessions, f"{self!r}: {by_connection ^ sessions}"
        assert all(self._by_connection.values()), f"{self!r} keeps a connection without sessions"
        groups = Counter(member.group_id for member in self._sessions)
        assert self._members_of == groups, f"{self!r}: {self._members_of}"
        assert all(session.member == member for member, session in self._sessions.items())

    def get(self, member: Member) -> ShareSession | None:
        return self._sessions.get(member)

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return group_id in self._members_of

    def begin(self, member: Member, connection_id: int) -> ShareSession:
        """Begin a session, and end the member's earlier one. Raises SHARE_SESSION_LIMIT_REACHED."""
        self.remove(member)
        if len(self._sessions) >= self._sessions_max:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED, "The limit of share sessions is reached."
            )
        session = self._sessions[member] = ShareSession(member, connection_id)
        self._by_connection.setdefault(connection_id, {})[member] = None
        self._members_of[member.group_id] += 1
        return session

    def continue_from(self, member: Member, epoch: int) -> ShareSession:
        """The member's session, for a request of `epoch`. Raises SHARE_SESSION_NOT_FOUND,
        INVALID_SHARE_SESSION_EPOCH."""
        session = self._sessions.get(member)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, "The share session is not found.")
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH, "The share session epoch is invalid."
            )
        session.epoch = next_epoch(epoch)
        return session

    def remove(self, member: Member) -> ShareSession | None:
        """End the member's session and return it; None if it has none."""
        session = self._sessions.pop(member, None)
        if session is not None:
            members = self._by_connection.get(session.connection_id, {})
            members.pop(member, None)
            if not members:
                self._by_connection.pop(session.connection_id, None)
            self._members_of[member.group_id] -= 1
            if not self._members_of[member.group_id]:
                del self._members_of[member.group_id]
        return session

    def end(self, session: ShareSession) -> bool:
        """End this session, but not a newer one of its member. Returns whether it existed."""
        if self._sessions.get(session.member) is not session:
            return False
        self.remove(session.member)
        return True

    def on_connection_closed(self, connection_id: int) -> list[ShareSession]:
        """End the sessions of a connection."""
        members = self._by_connection.get(connection_id)
        if members is None:
            return []
        ended = [session for member in list(members) if (session := self.remove(member))]
        self.evictions += len(ended)
        return ended
