"""The leader's count of each session's time: which have been silent for their time-out.

Pure. A new leader gives every session its whole time again. A server that did not run for a while (its check
comes late) gives that time back: what was sent to it meanwhile still waits in its sockets."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.zookeeper.server.replicated_state import ReplicatedSession


class SessionDeadlines:
    def __init__(self) -> None:
        self._due_ms: dict[int, float] = {}
        self._checked_ms = 0.0

    def begin(self, sessions: Mapping[int, ReplicatedSession], now_ms: float) -> None:
        """This server leads."""
        self._checked_ms = now_ms
        self._due_ms = {number: now_ms + one.timeout_ms for number, one in sessions.items()}

    def touch(self, number: int, session: ReplicatedSession | None, now_ms: float) -> None:
        """`number` was heard of; None where it is over."""
        if session is None:
            self._due_ms.pop(number, None)
        else:
            self._due_ms[number] = now_ms + session.timeout_ms

    def expired(self, now_ms: float, interval_ms: float) -> list[int]:
        """Those that are over now; each is given once. It is called every `interval_ms`."""
        late_ms = now_ms - self._checked_ms - interval_ms
        self._checked_ms = now_ms
        if late_ms > interval_ms:
            self._due_ms = {number: due + late_ms for number, due in self._due_ms.items()}
        over = [number for number, due in self._due_ms.items() if due <= now_ms]
        for number in over:
            del self._due_ms[number]
        return over
