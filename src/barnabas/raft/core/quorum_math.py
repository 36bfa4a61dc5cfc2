"""Arithmetic of majorities: votes and the high watermark. Pure functions and one frozen tally.

Source: Raft, sections 5.2, 5.4; KIP-595.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


def majority(voters: int) -> int:
    """The smallest number of `voters` that is a majority."""
    return voters // 2 + 1


def committed_offset(end_offsets: Iterable[int]) -> int:
    """The largest end offset that a majority has reached, given that of every voter."""
    descending = sorted(end_offsets, reverse=True)
    return descending[len(descending) // 2]


def high_watermark(end_offsets: Iterable[int], epoch_start_offset: int, present: int) -> int:
    """The new high watermark of a leader.

    `end_offsets` has one durable end offset per voter (-1: unknown). An offset counts only beyond
    `epoch_start_offset`, the offset of the leader's first own record: entries of earlier epochs
    commit with it, never by themselves. Never below `present`.
    """
    offset = committed_offset(end_offsets)
    return max(offset, present) if offset > epoch_start_offset else present


@dataclass(frozen=True, slots=True)
class Tally:
    """Votes of one election. Invariant: `granted` and `rejected` are disjoint parts of `voters`."""

    voters: frozenset[int]
    granted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()

    def with_vote(self, voter: int, granted: bool) -> Tally:
        """A vote counted. A grant is not taken back by a later rejection (of a duplicate)."""
        if voter not in self.voters:
            return self
        if granted:
            return replace(self, granted=self.granted | {voter}, rejected=self.rejected - {voter})
        if voter in self.granted:
            return self
        return replace(self, rejected=self.rejected | {voter})

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= majority(len(self.voters))

    @property
    def is_lost(self) -> bool:
        return len(self.voters) - len(self.rejected) < majority(len(self.voters))

    @property
    def open(self) -> list[int]:
        """Voters that have not answered, ascending."""
        return sorted(self.voters - self.granted - self.rejected)
