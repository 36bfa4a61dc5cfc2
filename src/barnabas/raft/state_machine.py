"""The seam between the quorum and what it replicates: committed batches in, proposals out.

A :class:`StateMachine` receives what was committed, in offset order, each offset once; it never
refuses. A caller proposes with ``RaftNode.append`` and waits until the high watermark has
passed the offset it got. All calls are made on the node's one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from barnabas.types import Buffer


class CommittedBatch(NamedTuple):
    """The records of one batch. Control batches are skipped; the offsets show the gap."""

    base_offset: int
    """Offset of ``values[0]``; the values follow without gap."""
    epoch: int
    """Quorum epoch whose leader appended them."""
    append_timestamp: int
    """Wall clock of that leader, milliseconds."""
    values: Sequence[Buffer]

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.values) - 1


class OffsetAndEpoch(NamedTuple):
    """An end offset (exclusive) with the epoch of the record before it: what names a snapshot,
    a voter's position, a point of divergence."""

    offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


class SnapshotReader(Protocol):
    """The content of a snapshot, to be read once from the beginning."""

    @property
    def id(self) -> OffsetAndEpoch:
        """Everything before this offset is in the snapshot."""

    @property
    def last_contained_timestamp(self) -> int:
        """Append timestamp of the last record in it, milliseconds."""

    def values(self) -> Iterator[Sequence[Buffer]]:
        """The record values in order, some hundred at a time. Raises ``CorruptSnapshotError`` for
        damaged bytes."""


class StateMachine(Protocol):
    """The machine that is replicated."""

    def on_commit(self, batches: Sequence[CommittedBatch]) -> Iterator[None] | None:
        """Apply. `batches` follow what was applied before; their values are views that stay valid
        for as long as they are held. What takes longer than some milliseconds is returned as steps that
        do not: one is taken per turn, and nothing more is applied, nor a snapshot taken, before the last
        one. Steps may be given up half way when a snapshot replaces everything. After an exception the
        same batches are given again."""

    def on_snapshot(self, snapshot: SnapshotReader) -> Iterator[None] | None:
        """Forget everything and become what `snapshot` says, in steps as with `on_commit`; be what you
        were until it is whole. At the start, or where the leader no longer has what this replica
        misses."""

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        """Who leads `epoch`; -1 where that is not known (any more). Says this node itself only
        when the leader's first record was committed and everything before it was applied: from
        then on `append` proposes on the state that the machine holds."""

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        """The values that `on_snapshot` would need to become what the machine is now, in chunks
        that each take no more than a few milliseconds to produce. Pulled one chunk per turn while
        `on_commit` continues: the iterator must keep showing the moment of this call. None: not now."""


class NotLeaderError(Exception):
    """This replica does not lead (yet, or any more); nothing was appended."""

    def __init__(self, leader_id: int, epoch: int) -> None:
        super().__init__(f"the leader of quorum epoch {epoch} is {leader_id}")
        self.leader_id = leader_id
        self.epoch = epoch


class BatchTooLargeError(Exception):
    """More bytes than one batch may have; nothing was appended."""
