"""Where a follower of one partition fetches from, and where it cuts its log.

One :class:`FollowerState` per followed partition; it knows the offset of the next fetch, why it waits
where it waits, and the truncation that a leader's diverging epoch asks for.

Invariants: a follower never appends what does not begin at its log's end; it truncates to the end of
the largest epoch that both logs share, never further back than that takes.

Source: Kafka's AbstractFetcherThread and PartitionFetchState; KIP-101, KIP-279, KIP-595 (diverging
epoch in the fetch response).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Phase(Enum):
    FETCHING = "fetching"
    FINDING_OFFSET = "finding offset"
    """The leader said OFFSET_OUT_OF_RANGE: it is being asked where its log begins and ends."""
    FAILED = "failed"
    """Nothing more until the metadata say something new: fenced, or its directory failed."""


class FollowerState:
    """One partition that this broker follows in `leader_epoch`."""

    __slots__ = ("delayed_until_ms", "fetch_offset", "last_fetched_epoch", "leader_epoch", "phase")

    def __init__(self, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        """Epoch of the record before `fetch_offset`; -1 where unknown (then nothing is compared)."""
        self.phase = Phase.FETCHING
        self.delayed_until_ms = 0.0

    def is_ready(self, now_ms: float) -> bool:
        return self.phase is Phase.FETCHING and self.delayed_until_ms <= now_ms

    def delay(self, until_ms: float) -> None:
        self.delayed_until_ms = max(self.delayed_until_ms, until_ms)

    def moved_to(self, offset: int, last_epoch: int) -> None:
        """The log ends at `offset` now."""
        self.fetch_offset = offset
        self.last_fetched_epoch = last_epoch
        self.phase = Phase.FETCHING

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
    """Where to cut after the leader said that it ends `leader_epoch` at `leader_end`.

    (`own_epoch`, `own_epoch_end`) is this log's largest epoch not above `leader_epoch` and its end,
    (-1, -1) where there is none. Where the follower lacks the leader's epoch it cuts to the end of
    the one below and compares again with its next fetch.
    """
    if leader_end < 0:
        return min(fetch_offset, log_end)
    if own_epoch_end < 0:
        return min(leader_end, log_end)
    if own_epoch != leader_epoch:
        return min(own_epoch_end, log_end)
    return min(own_epoch_end, leader_end, log_end)


class OutOfRange(NamedTuple):
    """What to do about a fetch outside the leader's log: cut to `truncate_to`, or start all over at
    `start_at`; None means not."""

    truncate_to: int | None
    start_at: int | None


def resolve_out_of_range(
    log_end: int, sound_end: int, leader_start: int, leader_end: int
) -> OutOfRange:
    """The follower truncates where the leader's log is shorter (an unclean election), or where its own log
    from `sound_end` on names epochs that had no leader (they rotted: no CRC covers them). It drops everything
    where the leader's log begins behind its own end (retention was quicker). Otherwise it continues from its
    own log's end."""
    if leader_start > sound_end:
        return OutOfRange(None, leader_start)
    end = min(leader_end, sound_end)
    return OutOfRange(end if end < log_end else None, None)
