"""The machine's view of its log: offsets and epochs, no bytes.

The machine tells the world what to append or cut and keeps this picture in step, so that every
decision about the log is arithmetic here. `synced_offset` alone is learnt from outside.
Source: KIP-595 (divergence), KIP-630 (snapshots); Kafka's ``RaftLog.validateOffsetAndEpoch``.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from barnabas.raft.state_machine import OffsetAndEpoch


class FetchFit(Enum):
    """How a follower's position fits to the leader's log."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


class FetchCheck(NamedTuple):
    fit: FetchFit
    at: OffsetAndEpoch | None = None
    """The offset at which the logs part (DIVERGING), or the snapshot to fetch (SNAPSHOT)."""


VALID = FetchCheck(FetchFit.VALID)


class LogMetadata:
    """Invariants: start_offset <= synced_offset <= end_offset; epochs and their starts ascend."""

    __slots__ = (
        "end_offset",
        "epochs",
        "earliest_snapshot",
        "latest_snapshot",
        "start_offset",
        "synced_offset",
    )

    def __init__(
        self,
        start_offset: int = 0,
        end_offset: int = 0,
        epochs: list[tuple[int, int]] | None = None,
        earliest_snapshot: OffsetAndEpoch | None = None,
        latest_snapshot: OffsetAndEpoch | None = None,
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.synced_offset = end_offset
        self.epochs = list(epochs or ())
        """(epoch, offset of its first record)."""
        self.earliest_snapshot = earliest_snapshot
        self.latest_snapshot = latest_snapshot

    def __repr__(self) -> str:
        return (
            f"LogShape({self.start_offset}..{self.end_offset} synced {self.synced_offset}"
            f" epochs {self.epochs} snapshot {self.latest_snapshot})"
        )

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record; of the snapshot where no record follows it; 0 at the very start."""
        return self.epochs[-1][0] if self.epochs else self._epoch_of_snapshot(self.end_offset)

    def _epoch_of_snapshot(self, offset: int) -> int:
        """The epoch that the snapshots give the record before `offset`; 0 where they end after it: the
        log may begin below its earliest snapshot, in an older epoch (seed 7)."""
        for snapshot in (self.latest_snapshot, self.earliest_snapshot):
            if snapshot is not None and snapshot.offset <= offset:
                return snapshot.epoch
        return 0

    @property
    def last(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    def is_behind(self, other: OffsetAndEpoch) -> bool:
        """Whether a log that ends at `other` is at least as complete as this one."""
        return (other.epoch, other.offset) >= (self.last_epoch, self.end_offset)

    def end_of(self, epoch: int) -> OffsetAndEpoch:
        """The end of the largest epoch that is not above `epoch`."""
        index = bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        if index == 0:
            snapshot = self.earliest_snapshot
            if snapshot is not None and snapshot.offset == self.start_offset:
                return snapshot
            return OffsetAndEpoch(self.start_offset, 0)
        end = self.epochs[index][1] if index < len(self.epochs) else self.end_offset
        return OffsetAndEpoch(end, self.epochs[index - 1][0])

    def check(self, offset: int, epoch: int) -> FetchCheck:
        """Whether a follower whose log ends at `offset`, with a last record of `epoch`, may read on."""
        if self.start_offset == 0 and offset == 0 and epoch == 0:
            return VALID
        snapshot = self.earliest_snapshot
        if snapshot is not None and (
            offset < self.start_offset
            or (offset == self.start_offset != 0 and epoch != snapshot.epoch)
            or epoch < snapshot.epoch
        ):
            return FetchCheck(FetchFit.SNAPSHOT, self.latest_snapshot)
        if self.epochs and epoch == self.epochs[-1][0]:
            if offset <= self.end_offset:
                return VALID
            return FetchCheck(FetchFit.DIVERGING, OffsetAndEpoch(self.end_offset, epoch))
        end = self.end_of(epoch)
        if end.epoch != epoch or end.offset < offset:
            return FetchCheck(FetchFit.DIVERGING, end)
        return VALID

    def truncation_point(self, diverging: OffsetAndEpoch) -> int:
        """The offset at which a follower cuts when its leader's log parts from its own at `diverging`."""
        if diverging.epoch == 0:
            return min(diverging.offset, self.end_offset)
        own = self.end_of(diverging.epoch)
        return min(own.offset, diverging.offset) if own.epoch == diverging.epoch else own.offset

    def append(self, base_offset: int, end_offset: int, epoch: int) -> None:
        """Records of one epoch were appended."""
        if base_offset != self.end_offset or end_offset <= base_offset:
            raise ValueError(f"append of {base_offset}..{end_offset} to {self!r}")
        if not self.epochs or self.epochs[-1][0] != epoch:
            if epoch < self.last_epoch:
                raise ValueError(f"append of epoch {epoch} to {self!r}")
            self.epochs.append((epoch, base_offset))
        self.end_offset = end_offset

    def truncate_to(self, offset: int) -> None:
        self.end_offset = offset
        self.synced_offset = min(self.synced_offset, offset)
        while self.epochs and self.epochs[-1][1] >= offset:
            self.epochs.pop()

    def restart_at(self, snapshot: OffsetAndEpoch) -> None:
        """A snapshot replaced the whole log."""
        self.start_offset = self.end_offset = self.synced_offset = snapshot.offset
        self.epochs.clear()
        self.earliest_snapshot = self.latest_snapshot = snapshot

    def advance_start(self, offset: int, earliest_snapshot: OffsetAndEpoch) -> None:
        """The log before `offset` was deleted; `earliest_snapshot` is the oldest one kept."""
        self.start_offset = offset
        self.earliest_snapshot = earliest_snapshot
        while len(self.epochs) > 1 and self.epochs[1][1] <= offset:
            self.epochs.pop(0)
        if self.epochs and self.epochs[0][1] < offset:
            self.epochs[0] = (self.epochs[0][0], offset)
        if self.epochs and self.epochs[0][1] >= self.end_offset:
            self.epochs.clear()

    def snapshot_added(self, snapshot: OffsetAndEpoch) -> None:
        self.latest_snapshot = snapshot
        if self.earliest_snapshot is None:
            self.earliest_snapshot = snapshot

    def validate(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        assert 0 <= self.start_offset <= self.synced_offset <= self.end_offset, repr(self)
        for (epoch, start), (next_epoch, next_start) in pairwise(self.epochs):
            assert epoch < next_epoch and start < next_start, f"epochs do not ascend: {self!r}"
        if self.epochs:
            assert self.start_offset <= self.epochs[0][1], repr(self)
            assert self.epochs[-1][1] < self.end_offset, f"an epoch without a record: {self!r}"
        earliest, latest = self.earliest_snapshot, self.latest_snapshot
        if earliest is not None and latest is not None:
            assert earliest <= latest, f"{earliest} is behind {latest}: {self!r}"

    def epoch_of(self, offset: int) -> int:
        """Epoch of the record at `offset`; -1 where it is not in the log."""
        if not self.start_offset <= offset < self.end_offset:
            return -1
        index = bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[index - 1][0] if index else -1

    def epoch_before(self, offset: int) -> int:
        """Epoch of the record before `offset`, for offsets that are in the log."""
        index = bisect_right(self.epochs, offset - 1, key=lambda entry: entry[1])
        return self.epochs[index - 1][0] if index else self._epoch_of_snapshot(offset)
