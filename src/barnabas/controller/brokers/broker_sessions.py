"""The sessions of brokers: when each sent its last heartbeat. Only the active controller has them.

A session is valid for `session_timeout_ms` after the last heartbeat. A new controller gives every
unfenced broker a session that starts now. Sessions are in no log: their loss costs at most one
time-out.

Source: Kafka's ``BrokerHeartbeatManager``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

UNKNOWN_OFFSET = -1


class BrokerSession:
    """The session of one broker. Times are milliseconds of the monotonic clock."""

    __slots__ = (
        "broker",
        "connection_id",
        "connection_open",
        "epoch",
        "last_contact_ms",
        "metadata_offset",
        "shutdown_offset",
    )

    def __init__(self, broker: int, epoch: int, now_ms: float) -> None:
        self.broker = broker
        self.epoch = epoch
        self.last_contact_ms = now_ms
        self.metadata_offset = UNKNOWN_OFFSET
        """The offset up to which the broker has replayed the metadata log."""
        self.shutdown_offset = UNKNOWN_OFFSET
        """The offset that every other broker must have replayed before this one may shut down."""
        self.connection_id = 0
        self.connection_open = False

    def __repr__(self) -> str:
        return (
            f"Session(broker={self.broker}, epoch={self.epoch},"
            f" last_contact_ms={self.last_contact_ms:.0f}, offset={self.metadata_offset})"
        )


class BrokerSessions:
    """All sessions, in ascending order of brokers where order can matter."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerSession] = {}
        self._by_connection: dict[int, int] = {}

    def start(self, broker: int, epoch: int, now_ms: float) -> BrokerSession:
        """Begin a session, in place of the broker's earlier one."""
        self.end(broker)
        session = self._sessions[broker] = BrokerSession(broker, epoch, now_ms)
        return session

    def end(self, broker: int) -> None:
        session = self._sessions.pop(broker, None)
        if session is not None and self._by_connection.get(session.connection_id) == broker:
            del self._by_connection[session.connection_id]

    def get(self, broker: int) -> BrokerSession | None:
        return self._sessions.get(broker)

    def touch(self, broker: int, epoch: int, now_ms: float, metadata_offset: int) -> BrokerSession:
        """Note a heartbeat."""
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch:
            session = self.start(broker, epoch, now_ms)
        session.last_contact_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        return session

    def seen_on(self, broker: int, connection_id: int) -> None:
        """Note the connection of the broker's heartbeats: when it ends, the broker may have
        died."""
        session = self._sessions.get(broker)
        if session is None:
            return
        if session.connection_id != connection_id or not session.connection_open:
            self._by_connection.pop(session.connection_id, None)
            session.connection_id = connection_id
            self._by_connection[connection_id] = broker
            session.connection_open = True

    def connection_closed(self, connection_id: int) -> int | None:
        """The broker whose connection this was, or None."""
        broker = self._by_connection.pop(connection_id, None)
        if broker is not None and (session := self._sessions.get(broker)) is not None:
            session.connection_open = False
        return broker

    def is_valid(self, broker: int, now_ms: float) -> bool:
        session = self._sessions.get(broker)
        return session is not None and now_ms < session.last_contact_ms + self.timeout_ms

    def expired(self, now_ms: float) -> list[int]:
        """The brokers whose session has expired, in ascending order."""
        # The same computation as in `deadline_ms`: rounding must not make the two disagree.
        wait = self.timeout_ms
        return sorted(b for b, s in self._sessions.items() if s.last_contact_ms + wait <= now_ms)

    def deadline_ms(self) -> float | None:
        """The time at which the next session expires; None if there are no sessions, or they never
        expire."""
        if not self._sessions or self.timeout_ms == inf:
            return None
        return min(s.last_contact_ms for s in self._sessions.values()) + self.timeout_ms

    def forgive(self, late_ms: float) -> None:
        """Prolong all sessions: this controller was stuck for `late_ms` and could not read
        heartbeats."""
        for session in self._sessions.values():
            session.last_contact_ms += late_ms

    def clear(self) -> None:
        self._sessions.clear()
        self._by_connection.clear()

    def __iter__(self) -> Iterator[BrokerSession]:
        return iter([self._sessions[b] for b in sorted(self._sessions)])
