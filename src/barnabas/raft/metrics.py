"""Metrics of a quorum replica, under Kafka's names (``raft-metrics`` of KIP-595, KIP-853).

Gauges are read from the machine on request. Averages, maxima and rates cover the last 15 to 30 seconds: a
window has two halves, so old values are forgotten and nothing is stored per event. Durations are
milliseconds, rates per second. The caller passes the time.

Source: Kafka's ``KafkaRaftMetrics``.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from barnabas.raft.core.machine import Machine
from barnabas.raft.core.states import (
    Candidate,
    Follower,
    Leader,
    Observer,
    Prospective,
    Resigned,
    State,
    Unattached,
    Voted,
)
from barnabas.types import ZERO_UUID, uuid_text

Value: TypeAlias = int | float | str

WINDOW_MS = 30_000.0
HALF_MS = WINDOW_MS / 2
UNCOMMITTED_MAX = 10_000
"""Appends whose commit latency is measured at the same time; further ones are not measured."""

_STATES: dict[type, str] = {
    Unattached: "unattached",
    Voted: "unattached-voted",
    Prospective: "prospective",
    Candidate: "candidate",
    Leader: "leader",
    Follower: "follower",
    Resigned: "resigned",
    Observer: "observer",
}


def _state_of(state: State) -> str:
    voted = isinstance(state, Prospective) and state.voted is not None
    return "prospective-voted" if voted else _STATES[type(state)]


_IN_ELECTION = frozenset({Prospective, Candidate})


class Window:
    """Count, sum and maximum of the values that were added within the current and the previous half
    window."""

    __slots__ = ("_begun_ms", "_count", "_half_begun_ms", "_max", "_older", "_sum")

    def __init__(self, now_ms: float) -> None:
        self._begun_ms = self._half_begun_ms = now_ms
        self._count, self._sum, self._max = 0, 0.0, 0.0
        self._older = (0, 0.0, 0.0)

    def add(self, value: float, now_ms: float) -> None:
        if now_ms - self._half_begun_ms >= HALF_MS:
            self._move(now_ms)
        self._count += 1
        self._sum += value
        if value > self._max:
            self._max = value

    def _move(self, now_ms: float) -> None:
        if now_ms - self._half_begun_ms < HALF_MS:
            return
        idle = now_ms - self._half_begun_ms >= WINDOW_MS
        self._older = (0, 0.0, 0.0) if idle else (self._count, self._sum, self._max)
        self._begun_ms = now_ms if idle else self._half_begun_ms
        self._half_begun_ms = now_ms
        self._count, self._sum, self._max = 0, 0.0, 0.0

    def average(self, now_ms: float) -> float:
        """The average; 0.0 if nothing was added."""
        self._move(now_ms)
        count = self._count + self._older[0]
        return (self._sum + self._older[1]) / count if count else 0.0

    def maximum(self, now_ms: float) -> float:
        self._move(now_ms)
        return max(self._max, self._older[2])

    def rate(self, now_ms: float) -> float:
        """The sum of the values per second."""
        self._move(now_ms)
        took_ms = now_ms - self._begun_ms
        return (self._sum + self._older[1]) * 1000 / took_ms if took_ms > 0 else 0.0


class QuorumMetrics:
    """Metrics of one replica; `RaftNode` calls the ``on_...`` methods."""

    def __init__(self, machine: Machine, now_ms: float) -> None:
        self._machine = machine
        self._commit_latency = Window(now_ms)
        self._election_latency = Window(now_ms)
        self._appended = Window(now_ms)
        self._fetched = Window(now_ms)
        self._busy = Window(now_ms)
        self._election_since_ms: float | None = None
        self._uncommitted: deque[tuple[int, float]] = deque()
        """(end offset, time of the append) of this leader's uncommitted appends."""

    def on_step(self, began_ms: float, now_ms: float) -> None:
        """`RaftNode` ran a step and its effects between these times."""
        self._busy.add(now_ms - began_ms, now_ms)
        in_election = type(self._machine.state) in _IN_ELECTION
        if not in_election and self._election_since_ms is None:
            return
        if in_election and self._election_since_ms is None:
            self._election_since_ms = began_ms
        elif not in_election:
            if self._election_since_ms is not None and self._machine.leader_id >= 0:
                self._election_latency.add(now_ms - self._election_since_ms, now_ms)
            self._election_since_ms = None

    def on_append(self, records: int, end_offset: int, now_ms: float) -> None:
        """Records went into the log: proposed by this leader, or fetched from another."""
        if type(self._machine.state) is Leader:
            self._appended.add(records, now_ms)
            if len(self._uncommitted) < UNCOMMITTED_MAX:
                self._uncommitted.append((end_offset, now_ms))
        else:
            self._fetched.add(records, now_ms)

    def on_commit(self, offset: int, now_ms: float) -> None:
        """The high watermark moved."""
        waiting = self._uncommitted
        while waiting and waiting[0][0] <= offset:
            self._commit_latency.add(now_ms - waiting.popleft()[1], now_ms)

    def on_leader(self) -> None:
        """The leader changed: forget the appends of a former leadership."""
        if not isinstance(self._machine.state, Leader):
            self._uncommitted.clear()

    def describe(self, now_ms: float) -> dict[str, Value]:
        """Every metric by its name."""
        machine = self._machine
        voted = machine.state.election.voted
        last = machine.log.last
        table = machine.state.progress_table if isinstance(machine.state, Leader) else None
        offset = machine.history.voters_offset
        uncommitted = offset is not None and offset >= machine.high_watermark
        unknown = [n for n in machine.voters if n != machine.me.id and not self._is_known(n)]
        return {
            "current-state": _state_of(machine.state),
            "current-leader": machine.leader_id,
            "current-vote": voted.id if voted else -1,
            "current-vote-directory-id": uuid_text(voted.directory_id if voted else ZERO_UUID),
            "current-epoch": machine.epoch,
            "high-watermark": machine.high_watermark,
            "log-end-offset": last.offset,
            "log-end-epoch": last.epoch,
            "number-unknown-voter-connections": len(unknown),
            "number-of-voters": len(machine.voters),
            "number-of-observers": len(table.observers) if table is not None else -1,
            "uncommitted-voter-change": int(uncommitted),
            "commit-latency-avg": _rounded(self._commit_latency.average(now_ms)),
            "commit-latency-max": _rounded(self._commit_latency.maximum(now_ms)),
            "election-latency-avg": _rounded(self._election_latency.average(now_ms)),
            "election-latency-max": _rounded(self._election_latency.maximum(now_ms)),
            "append-records-rate": _rounded(self._appended.rate(now_ms)),
            "fetch-records-rate": _rounded(self._fetched.rate(now_ms)),
            "poll-idle-ratio-avg": _rounded(max(1 - self._busy.rate(now_ms) / 1000, 0.0)),
        }

    def _is_known(self, node_id: int) -> bool:
        """Whether the voter's endpoint is known."""
        listener = self._machine.settings.listener_name
        return self._machine.voters.endpoint(node_id, listener) is not None


def _rounded(value: float) -> float:
    return round(value, 3)
