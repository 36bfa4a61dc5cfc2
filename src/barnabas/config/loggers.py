"""The levels of a node's own log: of everything (``root``), and of one area where it has its own.

An area is the first part of an event's name: ``raft`` of ``raft.leader``. Levels have Kafka's names, which
clients set and read as configuration of a broker's loggers (KIP-412); a level lasts until the process ends.
"""

from __future__ import annotations

from collections.abc import Mapping

ROOT = "root"
AREAS = (
    "acl", "authorization", "broker", "client", "config", "connection", "consumer",
    "controller", "coordinator", "fetcher", "isr", "listener", "log", "loop", "migration", "node",
    "oauth", "producer", "quota", "raft", "replica", "request", "service", "share", "tls", "token",
    "topic", "transaction", "user", "zookeeper",
)  # fmt: skip
"""Every area that has events."""
_RANKS = {"debug": 1, "info": 2, "warning": 3, "error": 4}
_LEVELS = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "WARN": 3, "ERROR": 4, "FATAL": 5}
LEVELS = tuple(_LEVELS)


class Loggers:
    """Which lines are written. `level` is that of the root: debug, info, warning or error."""

    def __init__(self, level: str = "info") -> None:
        at = _RANKS[level]
        self._root = next(name for name, rank in _LEVELS.items() if rank == at)
        self._own: dict[str, str] = {}
        """Areas that have a level of their own."""

    def allows(self, level: str, event: str) -> bool:
        """Whether a line of `level` about `event` is written."""
        least = self._root
        if self._own:
            least = self._own.get(event.partition(".")[0], least)
        return _RANKS[level] >= _LEVELS[least]

    def levels(self) -> Mapping[str, str]:
        """The level that holds for each logger."""
        return {ROOT: self._root, **{area: self._own.get(area, self._root) for area in AREAS}}

    def set(self, logger: str, level: str) -> None:
        """Logger and level must be known ones."""
        assert level in _LEVELS and (logger == ROOT or logger in AREAS)
        if logger == ROOT:
            self._root = level
        else:
            self._own[logger] = level

    def unset(self, logger: str) -> None:
        """An area follows the root again."""
        self._own.pop(logger, None)
