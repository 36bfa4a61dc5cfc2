"""The base of stores that hold what znodes say in memory: read whole, kept current, changed with versions.

A store reads all of its znodes at the start, in each new session and after a missed notification. A write
that another broker's write prevents, or whose outcome is unknown, is decided and tried again, after a delay.

Source: Kafka 3.9's ``AclAuthorizer.updateResourceAcls`` (its retries).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.ports import Ports
from barnabas.wire.schema import Message
from barnabas.zookeeper.session_keeper import SessionKeeper

WRITE_RETRIES_MAX = 10
BACKOFF_MS, BACKOFF_JITTER_MS = 100, 50


class ZnodeStore:
    """Follows the session."""

    def __init__(self, ports: Ports, sessions: SessionKeeper, rng: str) -> None:
        """`rng` is the name of the generator of the delays."""
        self._ports = ports
        self._sessions = sessions
        self._rng = ports.rng(rng)
        self._unanswered = 0
        """Reads of the present pass over all znodes that have no answer yet."""
        self._on_loaded: Callable[[], None] | None = None
        self._report: Callable[[Sequence[Message]], None] = lambda records: None

    def records(self) -> list[Message]:
        """The records of everything that the store holds."""
        raise NotImplementedError

    def replay_to(self, follower: Callable[[Sequence[Message]], None]) -> None:
        """`follower` gets all records now, and from now on those of each change."""
        follower(self.records())
        self._report = follower

    def load(self, on_loaded: Callable[[], None]) -> None:
        """Create the folders where they are missing and read all znodes; `on_loaded` follows."""
        self._on_loaded = on_loaded
        self._read_all()

    def on_connected(self, is_new: bool) -> None:
        if is_new:
            self._read_all()

    def on_expired(self) -> None:
        return

    def _read_all(self) -> None:
        self._unanswered += 1
        self._ask_for_all()
        self._on_answered()

    def _ask_for_all(self) -> None:
        """Read every znode by `_ask`. Notifications are watched first: no change falls between."""
        raise NotImplementedError

    def _on_all_read(self) -> None:
        """Every read of the pass is answered."""
        raise NotImplementedError

    def _ask(self, request: Any, then: Callable[[Any], None]) -> None:
        """Send a read of the pass; `then` may send further ones."""
        self._unanswered += 1

        def on_answer(result: Any) -> None:
            try:
                then(result)
            finally:
                self._on_answered()

        self._sessions.ask(request, on_answer)

    def _on_answered(self) -> None:
        self._unanswered -= 1
        if self._unanswered:
            return
        self._on_all_read()
        on_loaded, self._on_loaded = self._on_loaded, None
        if on_loaded is not None:
            on_loaded()

    def _try_later(self, attempt: int, again: Callable[[], None]) -> bool:
        """Call `again` after a delay. False if `attempt`, counted from 0, was the last one."""
        if attempt >= WRITE_RETRIES_MAX:
            return False
        at_ms = self._ports.clock.now_ms() + BACKOFF_MS + self._rng.random() * BACKOFF_JITTER_MS
        self._ports.wakeups.call_at(at_ms, again)
        return True
