"""The one thing that is under way for an effect of the migration's driver: a read, a write, or a delay.

An answer counts only in the turn in which it was asked for; `stop` begins the next turn.
"""

from __future__ import annotations

from enum import Enum

from barnabas.ports import Wakeup
from barnabas.zookeeper.migration.znode_walk import ZnodeWalk


class Work(Enum):
    """The kind of work; at most one is under way."""

    NONE = "none"
    READING = "reading"
    """Znodes are read."""
    WRITING = "writing"
    """Transactions were submitted; what is committed meanwhile goes into the next ones."""
    WAITING = "waiting"
    """An effect failed, or something is missing: the delay before the next attempt is not over."""


class PendingWork:
    """The present work of one migration."""

    def __init__(self) -> None:
        self.kind = Work.NONE
        self.turn = 0
        self._walk: ZnodeWalk | None = None
        """Set for READING only."""
        self._retry: Wakeup | None = None
        """Armed for WAITING only."""

    def validate(self) -> None:
        """Raises AssertionError where a walk or a timer is there for other work."""
        assert (self._walk is not None) == (self.kind is Work.READING), repr(self)
        assert (self._retry is not None) == (self.kind is Work.WAITING), repr(self)

    def read(self, walk: ZnodeWalk) -> None:
        self._begin(Work.READING)
        self._walk = walk

    def write(self) -> None:
        self._begin(Work.WRITING)

    def wait(self, retry: Wakeup) -> None:
        self._begin(Work.WAITING)
        self._retry = retry

    def _begin(self, kind: Work) -> None:
        assert self.kind is Work.NONE, f"{self!r}: {kind.value} may not begin"
        self.kind = kind

    def end(self) -> None:
        """The work has its answer."""
        assert self.kind is not Work.NONE, f"{self!r} has ended before"
        self.kind, self._walk, self._retry = Work.NONE, None, None

    def stop(self) -> None:
        """The answer does not count any more."""
        self.turn += 1
        if self._walk is not None:
            self._walk.stop()
        if self._retry is not None:
            self._retry.cancel()
        self.kind, self._walk, self._retry = Work.NONE, None, None

    def __repr__(self) -> str:
        return f"PendingWork({self.kind.value} in turn {self.turn})"
