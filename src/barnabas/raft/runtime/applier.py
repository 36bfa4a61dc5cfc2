"""Giving the state machine what is committed: in order, each offset once, in slices.

Reads the log from `applied_offset` to the high watermark and hands the values on as views. Long
stretches (a replay at the start) are cut into slices, and what the machine cuts itself (a snapshot, a batch
of thousands of records) is done a step per turn, so that the node's thread is never held for long. The
offset says what is applied wholly. Announces leadership: others at once, this node itself only when
its first record was applied.

Source: Kafka's ``RaftClient.Listener``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.limits import RaftBounds
from barnabas.log.errors import CorruptLogError
from barnabas.raft.core.batches import CommittedEntries, committed_batches
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.state_machine import StateMachine
from barnabas.raft.storage.replica_log import RaftLog
from barnabas.raft.storage.snapshot_files import CorruptSnapshotError, SnapshotFile
from barnabas.record.batch import CorruptBatchError

_DONE = object()


class _Position(NamedTuple):
    """How far the machine is once some work is done; `size` is in bytes of log."""

    offset: int
    epoch: int
    timestamp: int
    size: int


def _position_of(snapshot: SnapshotFile) -> _Position:
    return _Position(*snapshot.id, snapshot.last_contained_timestamp, 0)


class Applier:
    """Between the log and one state machine. `later` runs its argument in another turn; `on_failed` is
    told where the disk does not give what was committed."""

    def __init__(
        self,
        log: RaftLog,
        log_metadata: LogMetadata,
        machine: StateMachine,
        node_id: int,
        later: Callable[[Callable[[], None]], None],
        on_failed: Callable[[Exception], None] | None = None,
        bounds: RaftBounds = RaftBounds(),
    ) -> None:
        self._log = log
        self._slice_bytes = bounds.applied_bytes
        self._log_metadata = log_metadata
        self._machine = machine
        self._node_id = node_id
        self._later = later
        self._on_failed = on_failed
        self._scheduled = self._advancing = False
        self._is_first = True
        """Nothing was applied in this run; one that is fetched later was checked when it came."""
        self._snapshot: SnapshotFile | None = None
        self._work: tuple[Iterator[None], _Position] | None = None
        """The rest of the machine's work, and the position after it."""
        self._leader = (-1, -1)
        self._own_start = -1
        self.applied_offset = log_metadata.start_offset
        self.applied_epoch = 0
        self.applied_bytes = 0
        """Bytes of the log that were applied in this run."""
        self.applied_timestamp = 0
        """Append timestamp of the last batch applied, milliseconds."""
        self.committed_offset = log_metadata.start_offset
        self.announced = (-1, -1)
        """(leader, epoch) that the state machine received last."""
        self.stopped = False

    @property
    def is_settled(self) -> bool:
        """Whether the machine is exactly at `applied_offset`, now."""
        return self._work is None and self._snapshot is None and not self._advancing

    def load(self, snapshot: SnapshotFile) -> None:
        """Start over from a snapshot, before anything else is applied. The one at offset 0 says only
        who votes."""
        self._work = None
        if snapshot.id.offset > 0:
            self._snapshot = snapshot
        else:
            self._reached(*_position_of(snapshot))
        self.committed_offset = max(self.committed_offset, snapshot.id.offset)

    def on_commit(self, offset: int) -> None:
        if offset > self.committed_offset:
            self.committed_offset = offset

    def on_leader(self, leader_id: int, epoch: int, start_offset: int) -> None:
        self._leader = (leader_id, epoch)
        self._own_start = start_offset

    def is_due(self) -> bool:
        """Whether `run` has anything to do."""
        return (
            self.applied_offset < self.committed_offset
            or self._leader != self.announced
            or self._work is not None
            or self._snapshot is not None
            or self._is_first
        )

    def run(self) -> None:
        """Apply a slice; the rest follows in later turns."""
        if self.stopped:
            return
        try:
            if not self._scheduled and not self._advancing:
                self._advancing = True
                try:
                    self._advance()
                finally:
                    self._advancing = False
            if self._leader != self.announced:
                self._announce()
        except (OSError, CorruptBatchError, CorruptLogError) as error:
            if self._on_failed is None:
                raise
            self._on_failed(error)

    def _run_slice(self) -> None:
        self._scheduled = False
        try:
            self.run()
        except CorruptSnapshotError as error:
            # At the very start, within the first `run`, it keeps the node from starting.
            if self._on_failed is None:
                raise
            self._on_failed(error)

    def _advance(self) -> None:
        if self._snapshot is not None:
            self._begin_snapshot(self._snapshot)
        elif self._work is None and self.applied_offset < self.committed_offset:
            self._begin_slice()
        self._is_first = False
        work = self._work
        if work is not None and self._step(*work) and self._work is work:
            self._work = None
            self._reached(*work[1])
        if self.applied_offset < self.committed_offset and not self._scheduled:
            self._scheduled = True
            self._later(self._run_slice)

    def _step(self, steps: Iterator[None], to: _Position) -> bool:
        """Whether that was the last one. A fault of the machine ends the steps: what was committed is given
        to it again then, and not taken for applied."""
        try:
            return next(steps, _DONE) is _DONE
        except Exception:
            if to.size:  # no snapshot
                self._work = None
            raise

    def _begin_snapshot(self, snapshot: SnapshotFile) -> None:
        self._snapshot = None
        if self._is_first:
            snapshot.check()
        work, position = self._machine.on_snapshot(snapshot), _position_of(snapshot)
        if work is None:
            self._reached(*position)
        else:
            self._work = work, position

    def _begin_slice(self) -> None:
        log, at = self._log, self.applied_offset
        # What came last is in memory. What the disk gives may have rotted since it was read at the start.
        kept = log.read_kept(at, self._slice_bytes, self.committed_offset)
        data = log.read(at, self._slice_bytes, self.committed_offset) if kept is None else kept
        found = committed_batches(data, at, self.committed_offset, check_crc=kept is None)
        if found.end_offset == self.applied_offset:
            why = f"nothing is there between {at} and the high watermark {self.committed_offset}"
            raise CorruptBatchError(0, why) if kept is None else AssertionError(why)
        if kept is None:
            self._check_epochs(found)
        batches, timestamp = found.batches, self.applied_timestamp
        work = None
        if batches:
            timestamp = batches[-1].append_timestamp
            work = self._machine.on_commit(batches)
        if work is None:
            self._reached(found.end_offset, found.epoch, timestamp, found.size)
        else:
            position = _Position(found.end_offset, found.epoch, timestamp, found.size)
            self._work = work, position

    def _check_epochs(self, found: CommittedEntries) -> None:
        """No CRC covers them."""
        last = -1
        epochs = [(batch.base_offset, batch.epoch) for batch in found.batches]
        for offset, epoch in (*epochs, (found.end_offset - 1, found.epoch)):
            if epoch != last:
                known = self._log_metadata.epoch_of(offset)
                if known not in (epoch, -1):
                    raise CorruptBatchError(
                        0, f"offset {offset} has epoch {epoch}, which was {known}"
                    )
                last = epoch

    def _reached(self, offset: int, epoch: int, timestamp: int, size: int) -> None:
        self.applied_offset, self.applied_epoch = offset, epoch
        self.applied_timestamp = timestamp
        self.applied_bytes += size

    def _announce(self) -> None:
        leader_id = self._leader[0]
        if leader_id == self._node_id and self.applied_offset <= self._own_start:
            return
        self.announced = self._leader
        self._machine.on_leader_change(*self._leader)
