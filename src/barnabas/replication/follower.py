"""A follower's fetch position in one partition, and the offset to which it truncates its log.

One :class:`FollowerState` per followed partition has the offset of the next fetch and its `FollowerPhase`;
`FOLLOWER_MOVES` has the moves between phases. `truncation_offset` answers a diverging epoch,
`resolve_out_of_range` an offset outside the leader's log.

Invariants: a follower appends only batches that begin at its log end offset. It truncates to the end of the
largest epoch that both logs share, and not further.

Source: Kafka's AbstractFetcherThread and PartitionFetchState; KIP-101, KIP-279, KIP-595 (diverging
epoch in the fetch response).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple


class FollowerPhase(Enum):
    """The state of a partition that this broker follows."""

    FETCHING = "fetching"
    """The next request to the leader asks for its records."""
    DELAYED = "delayed"
    """No fetches before `FollowerState.delayed_until_ms`."""
    FINDING_OFFSET = "finding offset"
    """The leader answered OFFSET_OUT_OF_RANGE, and is asked for its log start and log end offset."""
    FAILED = "failed"
    """No fetches until the metadata of the partition change: it is fenced, or its log directory failed."""


FOLLOWER_MOVES: Mapping[FollowerPhase, Mapping[FollowerPhase, str]] = MappingProxyType(
    {
        FollowerPhase.FETCHING: {
            FollowerPhase.DELAYED: "the leader lags, an error, a lost connection, or the throttle",
            FollowerPhase.FINDING_OFFSET: "the leader answered OFFSET_OUT_OF_RANGE",
            FollowerPhase.FAILED: "FENCED_LEADER_EPOCH, or the log directory failed",
        },
        FollowerPhase.DELAYED: {
            FollowerPhase.DELAYED: "another reason to wait",
            FollowerPhase.FETCHING: "the delay is over",
            FollowerPhase.FAILED: "the log directory failed",
        },
        FollowerPhase.FINDING_OFFSET: {
            FollowerPhase.DELAYED: "the log was adapted, or the leader did not answer",
            FollowerPhase.FAILED: "the log directory failed",
        },
        FollowerPhase.FAILED: {},
    }
)
"""FAILED ends with the `FollowerState`: new metadata begin another one in phase FETCHING."""


class FollowerState:
    """One partition that this broker follows in `leader_epoch`."""

    __slots__ = (
        "awaits_flush",
        "delayed_until_ms",
        "fetch_offset",
        "last_fetched_epoch",
        "leader_epoch",
        "phase",
    )

    def __init__(self, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        """Epoch of the record before `fetch_offset`; -1 if unknown (then the leader compares nothing)."""
        self.phase = FollowerPhase.FETCHING
        self.delayed_until_ms = 0.0
        self.awaits_flush = False
        """Whether the log has records that must be synced before the next fetch acknowledges them."""

    def enter(self, phase: FollowerPhase) -> None:
        """Make a move of `FOLLOWER_MOVES`."""
        assert phase in FOLLOWER_MOVES[self.phase], f"{self} may not become {phase.value}"
        self.phase = phase

    def delay(self, until_ms: float) -> None:
        self.delayed_until_ms = max(self.delayed_until_ms, until_ms)

    def moved_to(self, offset: int, last_epoch: int) -> None:
        """The log end offset is `offset` now: fetch from there."""
        self.fetch_offset = offset
        self.last_fetched_epoch = last_epoch

    def __repr__(self) -> str:
        return (
            f"FollowerState({self.phase.value} at {self.fetch_offset}"
            f" epoch {self.last_fetched_epoch}, leader epoch {self.leader_epoch})"
        )


def truncation_offset(
    leader_epoch: int,
    leader_end: int,
    own_epoch: int,
    own_epoch_end: int,
    log_end: int,
    fetch_offset: int,
) -> int:
    """The offset to truncate to after the leader answered that its `leader_epoch` ends at `leader_end`.

    (`own_epoch`, `own_epoch_end`) is this log's largest epoch not above `leader_epoch` and its end offset,
    (-1, -1) if there is none. If this log lacks the leader's epoch, it is truncated to the end of the epoch
    below, and the next fetch compares again.
    """
    if leader_end < 0:
        return min(fetch_offset, log_end)
    if own_epoch_end < 0:
        return min(leader_end, log_end)
    if own_epoch != leader_epoch:
        return min(own_epoch_end, log_end)
    return min(own_epoch_end, leader_end, log_end)


class OutOfRange(NamedTuple):
    """How to handle a fetch offset outside the leader's log: truncate to `truncate_to`, or start an empty log
    at `start_at`. If both are None the log stays."""

    truncate_to: int | None
    start_at: int | None


def resolve_out_of_range(
    log_end: int, matching_end: int, leader_start: int, leader_end: int
) -> OutOfRange:
    """Decide between the follower's log and the leader's range.

    The follower truncates if the leader's log is shorter (an unclean election), or if its own log has epochs
    above the leader's from `matching_end` on (corrupt: no CRC covers epochs). It starts an empty log if the
    leader's log starts after its end (retention was faster). Otherwise it fetches from its log end offset."""
    if leader_start > matching_end:
        return OutOfRange(None, leader_start)
    end = min(leader_end, matching_end)
    return OutOfRange(end if end < log_end else None, None)
