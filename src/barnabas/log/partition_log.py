"""One partition's log: segments, producer state, leader epochs, watermarks.

Appends patch the batch's first 16 bytes (base offset, length, leader epoch) and pass everything else on
as it came. Reads return one run of bytes of one segment. Nothing here decides who leads or what is
committed: the owner sets `high_watermark`. Faults of the disk are ``OSError``.

Source: ``UnifiedLog`` and ``LocalLog`` of Apache Kafka 4.3 for behaviour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from barnabas.log import transactions
from barnabas.log.config import LogConfig
from barnabas.log.epoch_cache import EpochCache
from barnabas.log.errors import OffsetOutOfRange
from barnabas.log.files import SNAPSHOT, OpenFiles, file_name
from barnabas.log.producer_state import (
    CompletedTransaction,
    ProducerStates,
    snapshot_offsets,
    write_snapshot,
)
from barnabas.log.segment import Segment
from barnabas.ports import Disk
from barnabas.record.batch import (
    LENGTH_PREFIX,
    PATCH,
    PATCH_SIZE,
    BatchHeader,
    CorruptBatchError,
    check_crc,
    check_shape,
    read_header,
)
from barnabas.record.decode import records_of
from barnabas.record.validate import Rules, Validated, validate
from barnabas.types import Buffer, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError

ABORTED_MAX = 100_000


class Origin(Enum):
    """Who wants to append: what a client sends is validated in full."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    QUORUM = "quorum"


class AppendInfo(NamedTuple):
    """What an append did. A duplicate shows the offsets it was first given."""

    first_offset: int
    last_offset: int
    log_append_time: int
    duplicate: bool = False


class ReadResult(NamedTuple):
    """A run of bytes that may end inside a batch. `next_position` is its end in the segment."""

    records: Buffer
    first_position: int
    segment_base: int


EMPTY = ReadResult(b"", 0, 0)


class PartitionLog:
    """Use :func:`barnabas.log.recovery.open_log` to open one."""

    def __init__(
        self,
        disk: Disk,
        files: OpenFiles,
        directory: str,
        partition: TopicPartition,
        config: LogConfig,
        topic_id: Uuid | None = None,
    ) -> None:
        self.disk = disk
        self.files = files
        self.directory = directory
        self.partition = partition
        self.topic_id = topic_id
        self.segments: list[Segment] = []
        """By base offset; never empty once open; the last one is active."""
        self.epochs = EpochCache(disk, f"{directory}/leader-epoch-checkpoint")
        self.producers = ProducerStates()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        """Everything below is on the device."""
        self.unsynced_messages = 0
        self.last_sync_ms = 0.0
        self._high_watermark = 0
        self._bases: list[int] = []
        self._rolled_ms = 0
        self.new_files = True
        """Whether names were made that the device may not have."""
        self.deleted_paths: list[str] = []
        """Files renamed to ``.deleted``; the owner removes them after ``file.delete.delay.ms``."""
        self.config = config
        self.rules = _rules(config)

    # -- what is there ---------------------------------------------------------------------------

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last record; -1 where unknown."""
        return self.epochs.latest

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        """Kept within [log start offset, log end offset]."""
        self._high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))

    @property
    def last_stable_offset(self) -> int:
        """Up to which no transaction is undecided; at most the high watermark."""
        first = self.producers.first_unstable_offset(self._high_watermark)
        return self._high_watermark if first is None else min(first, self._high_watermark)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        self.rules = _rules(config)

    def index_segments(self) -> None:
        """After `segments` changed."""
        self._bases = [segment.base_offset for segment in self.segments]

    # -- appending -------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        wall_ms: int,
        origin: Origin = Origin.CLIENT,
    ) -> AppendInfo:
        """Append one batch; it gets the next offsets. Raises :class:`KafkaError` where it is refused,
        ``OSError`` where the disk fails (the log must not be used any more)."""
        view = records if isinstance(records, memoryview) else memoryview(records)
        if origin is Origin.CLIENT:
            valid = validate(view, self.rules, wall_ms)
        else:
            valid = Validated(read_header(view), view)
        header, view = valid
        if header.producer_id >= 0 and not header.is_control:
            earlier = self.producers.check(header)
            if earlier is not None:
                return AppendInfo(earlier.first_offset, earlier.last_offset, -1, True)
        base = self.log_end_offset
        header = header._replace(base_offset=base, leader_epoch=leader_epoch)
        self._make_room(header, len(view), wall_ms)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base)
        head = PATCH.pack(base, header.length, leader_epoch)
        self._write(header, [head, view[PATCH_SIZE:]], len(view), view)
        stamped = header.max_timestamp if header.is_log_append_time else -1
        return AppendInfo(base, header.last_offset, stamped)

    def append_as_follower(self, records: Buffer) -> AppendInfo:
        """Append a run of whole batches as a leader sent them: offsets, epochs and bytes stay. A cut-off
        batch at the end is ignored. Raises :class:`CorruptBatchError`, :class:`KafkaError` where the
        offsets do not follow, ``OSError``."""
        view = memoryview(records)
        first, position = -1, 0
        while len(view) - position >= 61:
            header = read_header(view, position)
            check_shape(header, position)
            size = header.length + LENGTH_PREFIX
            if size > len(view) - position:
                break
            check_crc(header, view, position)
            if header.base_offset < self.log_end_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{self.partition}: offset {header.base_offset} does not follow"
                    f" {self.log_end_offset}",
                )
            if first < 0:
                first = header.base_offset
            self._append_given(header, view[position : position + size], size)
            position += size
        return AppendInfo(first, self.log_end_offset - 1, -1)

    def _append_given(self, header: BatchHeader, batch: memoryview, size: int) -> None:
        self._make_room(header, size, header.max_timestamp)
        if header.leader_epoch > self.epochs.latest:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        self._write(header, [batch], size, batch)

    def _write(
        self, header: BatchHeader, parts: list[Buffer], size: int, batch: memoryview
    ) -> None:
        self.active.append(parts, size, header)
        self.log_end_offset = header.next_offset
        self.unsynced_messages += header.last_offset_delta + 1
        marker = transactions.marker_of(header, batch) if header.is_control else None
        before = len(self.producers.unreplicated)
        self.producers.update(header, marker)
        if len(self.producers.unreplicated) > before:
            self._note_aborted(self.producers.unreplicated[-1])

    def _note_aborted(self, done: CompletedTransaction) -> None:
        if done.aborted:
            segment = self.active
            first = self.producers.first_unstable_offset(self._high_watermark)
            stable = min(first if first is not None else self.log_end_offset, done.first_offset)
            transactions.append_aborted(self.files, segment.transaction_index_path, done, stable)

    def _make_room(self, header: BatchHeader, size: int, now_ms: int) -> None:
        """Roll where the batch does not fit the active segment any more."""
        segment, config = self.active, self.config
        if segment.size == 0:
            return
        first = segment.first_timestamp
        if (
            segment.size + size > config.segment_bytes
            or segment.index.size() >= config.segment_index_bytes
            or segment.would_overflow(header.last_offset)
            or (first is not None and first >= 0 and now_ms - first > config.segment_ms)
        ):
            self.roll(header.base_offset)

    def roll(self, base_offset: int | None = None) -> Segment:
        """Begin a new segment at `base_offset` (the log's end where not given)."""
        base = self.log_end_offset if base_offset is None else base_offset
        self.active.finish()
        self.producers.end_offset = self.log_end_offset
        write_snapshot(self.disk, self.directory, self.producers, durable=False)
        return self.add_segment(base)

    def add_segment(self, base_offset: int) -> Segment:
        segment = Segment(
            self.files, self.directory, base_offset, 0, self.config.index_interval_bytes
        )
        for path in (segment.path, segment.index.path, segment.time_index.path):
            self.files.get(path).truncate(0)
        self.segments.append(segment)
        self.index_segments()
        self.new_files = True
        return segment

    # -- reading ---------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        up_to: int | None = None,
        at_least_one: bool = True,
        block: bool = True,
    ) -> ReadResult | None:
        """Bytes from the batch that holds `offset` on, ending below offset `up_to` (the log's end where
        None), at most `max_bytes` of them, or one whole batch where `at_least_one`. They may end
        inside a batch. None where reading would block and `block` is False.

        Raises :class:`OffsetOutOfRange`.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset >= end:
            return EMPTY
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while at < len(self.segments):
            segment = self.segments[at]
            start = segment.position_of_batch_with(offset)
            if start is not None:
                break
            at += 1
        else:
            return EMPTY
        last = at + 1 == len(self.segments)
        limit = segment.size
        if end < self.log_end_offset and (last or self._bases[at + 1] > end):
            limit = segment.position_of(end)
        size = min(max_bytes, limit - start)
        file = segment.file()
        if size < 61 or at_least_one:
            size = self._at_least_one(segment, start, size, limit, at_least_one)
        if size <= 0:
            return EMPTY
        data = file.read_at(start, size) if block else file.try_read_at(start, size)
        return None if data is None else ReadResult(data, start, segment.base_offset)

    @staticmethod
    def _at_least_one(
        segment: Segment, start: int, size: int, limit: int, at_least_one: bool
    ) -> int:
        """At least the first batch where that is asked; a size that is below it, otherwise."""
        if start >= limit:
            return 0
        if not at_least_one or size >= limit - start:
            return max(size, 0)
        need = segment.batch_size_at(start)
        return min(max(size, need), limit - start)

    def read_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that touch [start, end)."""
        found: list[tuple[int, int]] = []
        at = max(bisect_right(self._bases, start) - 1, 0)
        for segment in self.segments[at:]:
            if transactions.collect_aborted(
                self.disk, segment.transaction_index_path, start, end, found
            ):
                break
        return found

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record at or after `timestamp` (ms); None where none."""
        for segment in self.segments:
            if segment.max_timestamp < timestamp:
                continue
            start = segment.base_offset + segment.time_index.floor(timestamp)
            for batch in segment.headers(segment.position_of_batch_with(start) or 0):
                if batch.header.max_timestamp < timestamp:
                    continue
                for record in records_of(segment.view(batch)):
                    if record.timestamp >= timestamp and record.offset >= self.log_start_offset:
                        return record.timestamp, record.offset
        return None

    def max_timestamp(self) -> tuple[int, int]:
        """(largest timestamp, offset of the first record that has it); (-1, -1) where none."""
        best = max(self.segments, key=lambda segment: segment.max_timestamp)
        if best.max_timestamp < 0:
            return -1, -1
        found = self.offset_for_timestamp(best.max_timestamp)
        return found if found is not None else (-1, -1)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch ≤ `epoch`; (-1, -1) where unknown."""
        return self.epochs.end_of(epoch, self.log_end_offset)

    # -- cutting ---------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset` on (the whole batch that holds it). Whether anything went."""
        if offset >= self.log_end_offset:
            return False
        if offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        while len(self.segments) > 1 and self.segments[-1].base_offset > offset:
            self.segments.pop().remove()
        self.index_segments()
        active = self.active
        active.truncate(offset)
        self.log_end_offset = max(active.last_offset_scan(), self.log_start_offset)
        self._cut_states()
        return True

    def _cut_states(self) -> None:
        """Epochs, producers, watermark and recovery point follow a shorter log."""
        end = self.log_end_offset
        self.epochs.truncate_from_end(end)
        self.recovery_point = min(self.recovery_point, end)
        self.high_watermark = self._high_watermark
        for offset in snapshot_offsets(self.disk, self.directory):
            if offset > end:
                self.disk.remove(f"{self.directory}/{file_name(offset, SNAPSHOT)}")
        transactions.truncate_aborted(self.files, self.active.transaction_index_path, end)
        self.rebuild_producers()

    def rebuild_producers(self) -> None:
        """From the latest snapshot and the batches behind it."""
        from_offset = self.load_producer_snapshot()
        for segment in self.segments:
            if segment.base_offset + 0 < from_offset and segment is not self.active:
                following = self._bases[bisect_right(self._bases, segment.base_offset)]
                if following <= from_offset:
                    continue
            start = segment.position_of_batch_with(max(from_offset, segment.base_offset))
            if start is None:
                continue
            for batch in segment.headers(start):
                header = batch.header
                if header.next_offset <= from_offset or header.producer_id < 0:
                    continue
                marker = None
                if header.is_control:
                    marker = transactions.marker_of(header, segment.view(batch).data)
                self.producers.update(header, marker)
        self.producers.end_offset = self.log_end_offset
        self.producers.unreplicated = [
            done for done in self.producers.unreplicated if done.last_offset >= self._high_watermark
        ]

    def load_producer_snapshot(self) -> int:
        """Become what the newest usable snapshot says; the offset from which to go on."""
        for offset in reversed(snapshot_offsets(self.disk, self.directory)):
            path = f"{self.directory}/{file_name(offset, SNAPSHOT)}"
            if offset <= self.log_end_offset:
                try:
                    self.producers.load(self.disk.read_file(path), offset)
                    return max(offset, self.log_start_offset)
                except ValueError:
                    pass  # corrupt: the one before, or the batches, say the same
            self.disk.remove(path)
        self.producers.clear(self.log_start_offset)
        return self.log_start_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record has `offset`."""
        for segment in self.segments:
            segment.remove()
        for name in snapshot_offsets(self.disk, self.directory):
            self.disk.remove(f"{self.directory}/{file_name(name, SNAPSHOT)}")
        self.segments = []
        self.epochs.clear()
        self.producers.clear(offset)
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self._high_watermark = offset
        self.add_segment(offset)

    def advance_log_start(self, offset: int) -> bool:
        """Records below `offset` are gone for readers; whole segments below it go by retention."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._high_watermark = max(self._high_watermark, offset)
        self.epochs.truncate_from_start(offset)
        return True

    # -- retention -------------------------------------------------------------------------------

    def delete_old_segments(
        self, wall_ms: int, *, may_delete_to: int | None = None
    ) -> list[Segment]:
        """Take out segments that retention does not keep, none at or above `may_delete_to` (the high
        watermark where None). Their files are renamed to ``.deleted``."""
        bound = self._high_watermark if may_delete_to is None else may_delete_to
        gone = self._count_expired(wall_ms, bound)
        if gone == 0:
            return []
        if gone == len(self.segments):
            self.roll()
        old, self.segments = self.segments[:gone], self.segments[gone:]
        self.index_segments()
        self.advance_log_start(self.segments[0].base_offset)
        for segment in old:
            self.deleted_paths += segment.mark_deleted()
        for offset in snapshot_offsets(self.disk, self.directory):
            if offset < self.segments[0].base_offset:
                self.disk.remove(f"{self.directory}/{file_name(offset, SNAPSHOT)}")
        return old

    def _count_expired(self, wall_ms: int, bound: int) -> int:
        config, count = self.config, 0
        excess = self.size - config.retention_bytes if config.retention_bytes >= 0 else 0
        for at, segment in enumerate(self.segments):
            end = self._bases[at + 1] if at + 1 < len(self._bases) else self.log_end_offset
            if end > bound or segment.size == 0:
                break
            by_start = end <= self.log_start_offset
            stamp = segment.max_timestamp
            by_time = config.delete and 0 <= config.retention_ms < wall_ms - stamp and stamp >= 0
            by_size = config.delete and config.retention_bytes >= 0 and excess >= segment.size
            if not (by_start or by_time or by_size):
                break
            excess -= segment.size
            count += 1
        return count

    # -- durability ------------------------------------------------------------------------------

    def sync_job(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """(blocking job, what to call when it is done): makes durable what is there now, and moves
        the recovery point."""
        end = self.log_end_offset
        at = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
        paths: list[str] = []
        for segment in self.segments[at:]:
            segment.write_indexes()
            paths += segment.paths_to_sync()
        sync_names, self.new_files = self.new_files, False
        self.unsynced_messages = 0
        disk, directory = self.disk, self.directory

        def job() -> None:
            for path in paths:
                if disk.exists(path):
                    file = disk.open(path)
                    try:
                        file.sync()
                    finally:
                        file.close()
            if sync_names:
                disk.sync_dir(directory)

        def on_synced() -> None:
            self.recovery_point = max(self.recovery_point, min(end, self.log_end_offset))

        return job, on_synced

    def sync_log_job(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """As `sync_job` for the batches alone, which is all that a commit of the quorum needs: indexes
        are rebuilt where they are missing."""
        if self.new_files:
            return self.sync_job()
        end = self.log_end_offset
        at = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
        files = [segment.file() for segment in self.segments[at:]]
        self.unsynced_messages = 0

        def job() -> None:
            for file in files:
                file.sync()

        def on_synced() -> None:
            self.recovery_point = max(self.recovery_point, min(end, self.log_end_offset))

        return job, on_synced

    def flush(self) -> None:
        """Make everything durable now. Blocks."""
        job, on_synced = self.sync_job()
        job()
        on_synced()

    def close(self, *, clean: bool = True) -> None:
        """Write what is written behind, and give the files back. Blocks where `clean`."""
        if clean:
            self.producers.end_offset = self.log_end_offset
            if self.producers.entries:
                write_snapshot(self.disk, self.directory, self.producers, durable=True)
            self.active.finish()
            self.epochs.write(durable=False)
            self.flush()
        for segment in self.segments:
            segment.close()

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.partition}, {self.log_start_offset} to {self.log_end_offset},"
            f" high watermark {self._high_watermark}, {len(self.segments)} segments)"
        )


def _rules(config: LogConfig) -> Rules:
    return Rules(
        config.max_message_bytes,
        config.compact,
        config.compression_type,
        config.message_timestamp_type == "LogAppendTime",
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
    )


__all__ = ["AppendInfo", "CorruptBatchError", "Origin", "PartitionLog", "ReadResult"]
