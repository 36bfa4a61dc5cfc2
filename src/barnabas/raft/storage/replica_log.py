"""The log of ``__cluster_metadata-0`` as the replica uses it, and its real one on a partition's log.

Offsets and epochs are the quorum's to give: batches are appended as they stand. Reading a log that was
opened yields its shape and its control records in one pass over the batch headers.

Source: Kafka's ``KafkaRaftLog``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Protocol

from barnabas.limits import NodeBounds, RaftBounds
from barnabas.log.config import FOREVER_MS, LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.crash_recovery import BeforeCut
from barnabas.log.partition.flush_jobs import sync_log_job
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.partition.retention import take_deleted_paths
from barnabas.log.partition.trusted_append import append_trusted
from barnabas.ports import Disk
from barnabas.raft.core.batches import ControlRecord, control_records
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.record.batch import CONTROL, HEADER_SIZE, LENGTH_PREFIX, MAGIC, CorruptBatchError
from barnabas.record.builder import ControlType
from barnabas.types import METADATA_TOPIC, METADATA_TOPIC_ID, Buffer, TopicPartition

DIRECTORY = f"{METADATA_TOPIC}-0"
SCAN_BYTES = RaftBounds().scan_bytes
EPOCH_MAX = (1 << 31) - 1
UNKNOWN = -1
_HEAD = Struct(">qiibIhi")
"""A batch's header up to the last offset delta."""


class RaftLog(Protocol):
    """Faults of the disk are ``OSError``; the replica then ends its node."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of all segments."""

    def append(self, records: Buffer) -> None:
        """Whole batches that follow the end."""

    def read(self, offset: int, max_bytes: int, up_to: int) -> Buffer:
        """Whole batches from the one that holds `offset` on, the last one perhaps cut off; below
        offset `up_to`; at least one batch where there is one."""

    def read_kept(self, offset: int, max_bytes: int, up_to: int) -> Buffer | None:
        """Read as `read` does, of what was appended last and is in memory yet, where nothing rots; None
        where that is not so of all of it."""

    def truncate_to(self, offset: int) -> None: ...

    def restart_at(self, offset: int) -> None:
        """Drop everything; the next record has `offset`."""

    def delete_before(self, offset: int) -> int:
        """Let the log begin at `offset` at most, dropping whole segments; where it begins now."""

    def sync_job(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """(blocking work that makes everything durable that is appended now, what to call when it is
        done)."""

    def close(self, *, clean: bool) -> None:
        """Give the files back; `clean` writes what is written behind before."""


class PartitionRaftLog:
    """A `RaftLog` on disk."""

    def __init__(
        self,
        disk: Disk,
        files: FileCache,
        log: PartitionLog,
        fault: str = "",
        bounds: RaftBounds = RaftBounds(),
    ) -> None:
        self._disk = disk
        self._bounds = bounds
        self._files = files
        self._log = log
        self.fault = fault
        """Why recovery dropped something at the end, in one sentence; empty where it did not."""
        self._tail: deque[tuple[int, int, bytes]] = deque()
        """(offset, end offset, bytes) of what was appended last; it ends with the log."""
        self._tail_bytes = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        start_offset: int,
        recovery_point: int = 0,
        segment_bytes: int,
        segment_ms: int,
        before_cut: BeforeCut | None = None,
        bounds: NodeBounds = NodeBounds(),
    ) -> PartitionRaftLog:
        """`directory` is that of the partition; everything below `recovery_point` is known to be
        durable and is not looked at. Blocks. Raises ``OSError``, ``ValueError``, and what `before_cut`
        raises."""
        files = FileCache(disk, loaded_tables_max=bounds.logs.loaded_tables_max)
        config = LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            retention_bytes=-1,
            retention_ms=-1,
            max_message_bytes=FOREVER_MS,
        )
        try:
            opened = open_log(
                files,
                directory,
                TopicPartition(METADATA_TOPIC, 0),
                config,
                LogCheckpoints(
                    clean=False,
                    recovery_point=recovery_point,
                    log_start_offset=start_offset,
                    has_gaps=False,
                ),
                topic_id=METADATA_TOPIC_ID,
                before_cut=before_cut,
            )
        except BaseException:
            files.close_all()
            raise
        return cls(disk, files, opened.log, opened.fault, bounds.raft)

    @property
    def partition_log(self) -> PartitionLog:
        """The segments and offsets, to look at."""
        return self._log

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def size(self) -> int:
        return self._log.size

    def append(self, records: Buffer) -> None:
        log, size = self._log, len(records)
        tail_bytes_max = self._bounds.tail_bytes_max
        if size > tail_bytes_max:
            self._forget_tail()
            log.append_as_follower(records)
            return
        offset = log.log_end_offset
        data = bytes(records)  # of what was fetched there is a view only
        try:
            if not append_trusted(log, data):
                log.append_as_follower(data)
        except BaseException:
            self._forget_tail()
            raise
        tail = self._tail
        tail.append((offset, log.log_end_offset, data))
        size += self._tail_bytes
        while size > tail_bytes_max or len(tail) > self._bounds.tail_appends_max:
            size -= len(tail.popleft()[2])
        self._tail_bytes = size

    def _forget_tail(self) -> None:
        self._tail.clear()
        self._tail_bytes = 0

    def read(self, offset: int, max_bytes: int, up_to: int) -> Buffer:
        result = self._log.read(offset, max_bytes, up_to=up_to)
        return result.records if result is not None else b""

    def read_kept(self, offset: int, max_bytes: int, up_to: int) -> bytes | None:
        """The bytes of whole appends from `offset` on, below `up_to`."""
        tail = self._tail
        if not tail or offset < tail[0][0] or offset < self._log.log_start_offset:
            return None
        begin, end, data = tail[-1]
        if begin == offset:  # mostly it is the last one
            return data if end <= up_to and len(data) <= max_bytes else None
        found, size = list[bytes](), 0
        for begin, end, data in reversed(tail):
            if end <= up_to and begin >= offset:
                found.append(data)
                size += len(data)
            if begin <= offset:
                break
        if size > max_bytes or not found or begin != offset:
            return None
        return found[0] if len(found) == 1 else b"".join(reversed(found))

    def truncate_to(self, offset: int) -> None:
        self._forget_tail()
        self._log.truncate_to(offset)

    def restart_at(self, offset: int) -> None:
        self._forget_tail()
        self._log.truncate_fully_and_start_at(offset)

    def delete_before(self, offset: int) -> int:
        log = self._log
        log.move_high_watermark(max(log.high_watermark, offset))
        log.advance_log_start(offset)
        log.delete_old_segments(0, may_delete_to=offset)
        for path in take_deleted_paths(log):
            self._disk.remove(path)
        return log.log_start_offset

    def sync_job(self) -> tuple[Callable[[], None], Callable[[], None]]:
        return sync_log_job(self._log)

    def close(self, *, clean: bool) -> None:
        try:
            self._log.close(clean=clean)
        finally:
            self._files.close_all()

    def __repr__(self) -> str:
        return f"MetadataLog({self._log!r})"


class UnsoundError(ValueError):
    """No CRC covers offsets and epochs: from `offset` on the log is not what a quorum can have written."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"the metadata log is sound up to offset {offset}: {why}")
        self.offset = offset


def scan(
    log: RaftLog,
    epoch_before: int = UNKNOWN,
    epoch_max: int = EPOCH_MAX,
    scan_bytes: int = SCAN_BYTES,
) -> tuple[LogMetadata, list[tuple[int, list[ControlRecord]]]]:
    """The shape of a log that was just opened, without its snapshots, and its control batches by base
    offset. The record before its start is of `epoch_before`, where that is known; `epoch_max` is the last
    epoch of which this replica heard. Raises :class:`CorruptBatchError`, :class:`CorruptLogError`,
    :class:`UnsoundError`."""
    found = _Scan(log.start_offset, epoch_before)
    shape, before = found.log_metadata, -1
    while before < shape.end_offset < log.end_offset:
        before = shape.end_offset
        found.pass_batches(memoryview(log.read(before, scan_bytes, log.end_offset)))
    if shape.last_epoch > epoch_max and found.epoch_is_one_batch():
        raise UnsoundError(shape.epochs[-1][1], f"epoch {shape.last_epoch} was not reached yet")
    return shape, found.controls


class _Scan:
    """The summary of the batches up to here. In a quorum's log offsets have no gap, epochs do not
    descend, and each begins with the record of its leader."""

    def __init__(self, start_offset: int, epoch_before: int) -> None:
        self.log_metadata = LogMetadata(start_offset, start_offset)
        self.controls: list[tuple[int, list[ControlRecord]]] = []
        self._epoch = epoch_before

    def pass_batches(self, data: memoryview) -> None:
        """Headers only, which were checked when the log was opened: there may be a million of them."""
        shape, known = self.log_metadata, self._epoch
        unpack, position, total = _HEAD.unpack_from, 0, len(data)
        end = shape.end_offset
        while total - position >= HEADER_SIZE:
            base, length, epoch, magic, _, attributes, last_delta = unpack(data, position)
            stop = position + LENGTH_PREFIX + length
            if magic != MAGIC or length < HEADER_SIZE - LENGTH_PREFIX or base < 0 or last_delta < 0:
                raise CorruptBatchError(position, "no batch of format v2")
            if stop > total:
                break
            if base + last_delta >= end:
                if base > end:
                    raise UnsoundError(end, f"the next batch begins at {base}")
                records = control_records(data[position:stop]) if attributes & CONTROL else []
                if epoch != known:
                    if end > shape.end_offset:
                        shape.append(shape.end_offset, end, known)
                    self._check_epoch(known, epoch, end, records)
                    known = epoch
                end = base + last_delta + 1
                if records:
                    self.controls.append((base, records))
            position = stop
        if end > shape.end_offset:
            shape.append(shape.end_offset, end, known)
        self._epoch = known

    def _check_epoch(
        self, before: int, epoch: int, offset: int, records: list[ControlRecord]
    ) -> None:
        """`epoch` begins at `offset`."""
        if epoch < 0:
            raise UnsoundError(offset, f"epoch {epoch}")
        if before == UNKNOWN:
            return
        if epoch > before:
            if not records or records[0][0] != ControlType.LEADER_CHANGE:
                raise UnsoundError(offset, f"no leader was elected in epoch {epoch}")
        elif self.log_metadata.epochs:  # the first of a log is looked at with the snapshot
            from_offset = self.log_metadata.epochs[-1][1] if self.epoch_is_one_batch() else offset
            raise UnsoundError(from_offset, f"epoch {epoch} follows epoch {before}")

    def epoch_is_one_batch(self) -> bool:
        """Whether the last epoch so far has its leader's record and nothing else: if one of two neighbours
        rotted, it is that one."""
        if not self.controls:
            return False
        (base, records), (_, start) = self.controls[-1], self.log_metadata.epochs[-1]
        return base == start and base + len(records) == self.log_metadata.end_offset
