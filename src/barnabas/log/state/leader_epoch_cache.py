"""The start offset of each leader epoch of a partition (``leader-epoch-checkpoint``).

A leader answers with it where an epoch ends, so that a follower finds out where the logs diverge (KIP-101,
KIP-279). Entries ascend in epoch and in start offset. The file is written with every sync of the log and when
it closes, always before the recovery point moves past an entry's start offset. Recovery drops entries from
the recovery point on and reads them again from the batches. An epoch without records is in no batch, so the
file is written when such an epoch begins and when it is dropped.

Source: Kafka's ``LeaderEpochFileCache``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from barnabas.log.checkpoints import MalformedCheckpoint, read_epochs, write_epochs
from barnabas.log.durability import DirtyCounter
from barnabas.ports import Disk

UNDEFINED = -1


class LeaderEpochCache:
    """The leader epochs of one log. `path` is the checkpoint file."""

    __slots__ = ("_disk", "_written", "dirty_changes", "epochs", "path", "starts")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.epochs: list[int] = []
        self.starts: list[int] = []
        self.dirty_changes = DirtyCounter()
        """Counts the changes, and which of them are durable in the file."""
        self._written = 0
        """Number of changes in the file, durable or not."""

    def load(self) -> bool:
        """Read the file. False if it is malformed and has to be rebuilt."""
        try:
            entries = read_epochs(self._disk, self.path)
        except MalformedCheckpoint:
            return False
        if any(later <= earlier for (_, earlier), (_, later) in pairwise(entries)):
            return False
        self.epochs = [epoch for epoch, _ in entries]
        self.starts = [start for _, start in entries]
        return True

    @property
    def latest(self) -> int:
        return self.epochs[-1] if self.epochs else UNDEFINED

    def assign(self, epoch: int, start: int) -> bool:
        """Record that `epoch` begins at offset `start`, and drop later entries that contradict it. Returns
        whether anything changed."""
        if epoch < 0 or (self.epochs and epoch == self.epochs[-1]):
            return False
        keep = min(bisect_left(self.epochs, epoch), bisect_left(self.starts, start))
        del self.epochs[keep:], self.starts[keep:]
        self.epochs.append(epoch)
        self.starts.append(start)
        self.dirty_changes.happened()
        return True

    def validate(self) -> None:
        """Raises AssertionError where epochs or their starts do not ascend."""
        assert len(self.epochs) == len(self.starts)
        assert self.epochs == sorted(set(self.epochs)), f"{self.path}: {self.entries()}"
        assert self.starts == sorted(set(self.starts)), f"{self.path}: {self.entries()}"

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest known epoch ≤ `epoch`, its end offset); (-1, -1) if unknown."""
        if epoch == UNDEFINED or not self.epochs:
            return UNDEFINED, UNDEFINED
        if epoch == self.epochs[-1]:
            return epoch, log_end
        at = bisect_right(self.epochs, epoch)
        if at == len(self.epochs):
            return UNDEFINED, UNDEFINED
        if at == 0:
            return epoch, self.starts[0]
        return self.epochs[at - 1], self.starts[at]

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at `offset`; -1 if unknown."""
        at = bisect_right(self.starts, offset)
        return self.epochs[at - 1] if at else UNDEFINED

    def add_before(self, runs: list[tuple[int, int]]) -> None:
        """Insert `runs` of (epoch, start offset) before the first known entry."""
        if self.epochs:
            runs = [run for run in runs if run[0] <= self.epochs[0] and run[1] < self.starts[0]]
        if runs:
            if self.epochs and runs[-1][0] == self.epochs[0]:
                del self.epochs[0], self.starts[0]
            self.epochs[:0] = [epoch for epoch, _ in runs]
            self.starts[:0] = [start for _, start in runs]
            self.dirty_changes.happened()

    def correct(self, first: int, end: int, runs: list[tuple[int, int]]) -> None:
        """Replace the entries between offsets `first` and `end` by `runs` of (epoch, start offset),
        ascending: the old ones came from a corrupt batch."""
        behind = [(self.epoch_of(end), end)]
        known = self.entries()
        behind += [entry for entry in known if entry[1] > end]
        self.epochs, self.starts = [], []
        for epoch, start in [*(entry for entry in known if entry[1] < first), *runs, *behind]:
            if epoch > self.latest:
                self.epochs.append(epoch)
                self.starts.append(start)
        self.dirty_changes.happened()

    def truncate_from_end(self, offset: int) -> None:
        """Drop epochs that begin at `offset` or later."""
        keep = bisect_left(self.starts, offset)
        if keep < len(self.epochs):
            del self.epochs[keep:], self.starts[keep:]
            self.dirty_changes.happened()

    def truncate_from_start(self, offset: int) -> None:
        """Drop epochs that end at or before `offset`, the new log start offset."""
        at = bisect_right(self.starts, offset) - 1
        if at > 0 or (at == 0 and self.starts[0] < offset):
            del self.epochs[:at], self.starts[:at]
            self.starts[0] = offset
            self.dirty_changes.happened()

    def clear(self) -> None:
        if self.epochs:
            self.epochs, self.starts = [], []
            self.dirty_changes.happened()

    def take_over(self, other: LeaderEpochCache) -> None:
        """Copy the entries of `other`, which is of the same records."""
        if (self.epochs, self.starts) != (other.epochs, other.starts):
            self.epochs, self.starts = list(other.epochs), list(other.starts)
            self.dirty_changes.happened()

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.starts, strict=True))

    def write(self) -> bool:
        """Write the file if there are changes. Returns whether it has to be synced; the caller then reports
        the sync to `dirty_changes`. Only the owner's thread calls this: with several writers an older version
        could overwrite a newer one."""
        if self.dirty_changes.count != self._written:
            write_epochs(self._disk, self.path, self.entries(), durable=False)
            self._written = self.dirty_changes.count
        return self.dirty_changes.are_pending
