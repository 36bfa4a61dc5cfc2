"""One partition's log: segments, producer state, leader epochs, watermarks.

Appends patch the batch's first 16 bytes (base offset, length, leader epoch) and pass everything else on
as it came. Nothing here decides who leads or what is committed: the owner sets `high_watermark`. Faults
of the disk are ``OSError``; after one the log must be closed and opened again.

**Durability.** What lies below `recovery_point` is on the device; recovery believes it and reads the rest.
Appends go to fresh bytes of a file only: cutting a log ends its file and begins a new segment, so that
a power loss leaves what was before the cut or what came after it, never a mixture.

Source: ``UnifiedLog`` and ``LocalLog`` of Apache Kafka 4.3 for behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from crc32c import crc32c

from barnabas.log.config import LogConfig
from barnabas.log.durability import Durability
from barnabas.log.errors import UnexpectedGap
from barnabas.log.file_cache import FileCache
from barnabas.log.partition import flush_jobs, retention, truncation
from barnabas.log.partition.segmented_log import EMPTY, EPOCH_MAX, ReadResult, SegmentedLog
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import RELATIVE_MAX, Segment
from barnabas.log.state.generations import Generations
from barnabas.log.state.producer_snapshots import ProducerSnapshots
from barnabas.log.state.producer_state import (
    TRUSTED,
    ProducerStates,
    Verification,
    WrittenBatch,
    write_snapshot,
)
from barnabas.ports import Disk
from barnabas.record.batch import (
    CONTROL,
    HEADER_SIZE,
    LENGTH_PREFIX,
    PATCH,
    PATCH_SIZE,
    BatchHeader,
    CorruptBatchError,
    check_crc,
    check_shape,
    iterate,
    read_header,
)
from barnabas.record.validate import ValidationRules, validate
from barnabas.types import Buffer, TopicPartition, Uuid, new_tuple
from barnabas.wire.errors import ErrorCode, KafkaError


class AppendOrigin(Enum):
    """Who wants to append: what a client sends is validated in full."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    QUORUM = "quorum"


class AppendInfo(NamedTuple):
    """The result of an append. A duplicate shows the offsets it was first given, and its timestamp."""

    first_offset: int
    last_offset: int
    log_append_time: int
    duplicate: bool = False


class PartitionLog(SegmentedLog):
    """Use :func:`barnabas.log.partition.log_loader.open_log` to open one."""

    def __init__(
        self,
        disk: Disk,
        files: FileCache,
        directory: str,
        partition: TopicPartition,
        config: LogConfig,
        topic_id: Uuid | None = None,
    ) -> None:
        super().__init__(disk, files, directory, partition, config)
        self.topic_id = topic_id
        self.never_had_topic_id = False
        """Whether its directory was written by brokers of before topic ids (KIP-516)."""
        self.producers = ProducerStates()
        self.durability = Durability()
        self.generations = Generations()
        self.snapshots = ProducerSnapshots()
        self.deleted_paths: list[str] = []
        """Files renamed to ``.deleted``; the owner removes them after ``file.delete.delay.ms``."""
        self.high_watermark = 0
        """Within [log start offset, log end offset]: :meth:`move_high_watermark` sets it."""
        self.rules = _rules(config)
        self.roll_ms = config.roll_ms

    # -- what is there ---------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """Everything below is on the device."""
        return self.durability.recovery_point

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch, in which nothing may have been written yet; -1 where unknown."""
        return self.epochs.latest

    @property
    def last_written_epoch(self) -> int:
        """Leader epoch of the last record; -1 where unknown. Where no record is left, what is known of
        epochs."""
        end = self.log_end_offset
        return self.epochs.epoch_of(end - 1) if end > self.log_start_offset else self.last_epoch

    def move_high_watermark(self, offset: int) -> None:
        """To `offset`, or as near to it as the log goes."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        self.high_watermark = offset if offset > self.log_start_offset else self.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to which no transaction is undecided; within [log start offset, high watermark], also where
        retention took the first batches of an open transaction."""
        mark, producers = self.high_watermark, self.producers
        if not producers.open_transactions and not producers.unreplicated:
            return mark
        first = producers.first_unstable_offset(mark)
        return mark if first is None else max(min(first, mark), self.log_start_offset)

    @property
    def flushed_end_offset(self) -> int:
        """The offset up to which ``flush.messages`` allows the broker to report records as written."""
        end, limit = self.log_end_offset, self.durability.flush_limit
        return end if end < limit else limit

    @property
    def flush_is_due(self) -> bool:
        """Whether ``flush.messages`` asks for a sync."""
        return self.durability.unsynced_messages >= self.config.flush_messages

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch ≤ `epoch`; (-1, -1) where unknown."""
        return self.epochs.end_of(epoch, self.log_end_offset)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        self.rules = _rules(config)
        self.roll_ms = config.roll_ms
        if self.segments:
            self.active.size_with_room = 0

    def give_topic_id(self, topic_id: Uuid) -> None:
        """The log is `topic_id`'s from now on. ``partition.metadata``, which says so, is synced with it."""
        self.topic_id, self.never_had_topic_id = topic_id, False
        self.durability.dirty_dir_name.happened()

    def set_never_had_topic_id(self) -> None:
        """The log is the topic's that has its name, whatever the topic's id is."""
        self.never_had_topic_id = True

    def validate(self) -> None:
        """Invariants 6, 9 and 10 in one log. Raises AssertionError."""
        start, end, mark = self.log_start_offset, self.log_end_offset, self.high_watermark
        assert start <= mark <= end, f"high watermark {mark}: {self!r}"
        assert start <= self.last_stable_offset <= mark, f"{self.last_stable_offset}: {self!r}"
        assert self.recovery_point <= end, f"recovery point {self.recovery_point}: {self!r}"
        assert self.bases == [segment.base_offset for segment in self.segments], repr(self)
        assert self.bases == sorted(set(self.bases)), f"segments {self.bases}: {self!r}"
        assert self.bases[-1] <= end, f"segments {self.bases}: {self!r}"
        self.epochs.validate()
        self.producers.validate()

    # -- appending -------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        wall_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification: Verification | None = TRUSTED,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append a batch; it gets the next offsets. A client's is one batch and validated in full;
        coordinators and the quorum may append several. `verification` is of the first batch of a
        transaction, `transaction_version` of a marker (see :class:`ProducerStates`). Raises
        :class:`KafkaError` where it is refused, ``OSError`` where the disk fails (the log must not be used
        any more)."""
        view = records if isinstance(records, memoryview) else memoryview(records)
        if origin is AppendOrigin.CLIENT:
            header, view = validate(view, self.rules, wall_ms)
            if header.producer_id >= 0:
                earlier = self.producers.check(header, verification)
                if earlier is not None:
                    return _duplicate_of(earlier)
            return self._append_batch(header, view, leader_epoch, wall_ms, None)
        first, info = self.log_end_offset, None
        for batch in iterate(view, partial_tail=False):
            header = batch.header
            marker = transaction_index.marker_of(header, batch.data) if header.is_control else None
            if header.producer_id >= 0:
                if marker is not None:
                    self.producers.check_marker(header, marker[1], transaction_version)
                elif (earlier := self.producers.check(header, verification)) is not None:
                    info = _duplicate_of(earlier)
                    continue
            info = self._append_batch(header, batch.data, leader_epoch, wall_ms, marker)
        if info is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "nothing to append")
        if info.duplicate or info.first_offset == first:
            return info
        return AppendInfo(first, info.last_offset, info.log_append_time)

    def _append_batch(
        self,
        header: BatchHeader,
        view: memoryview,
        leader_epoch: int,
        wall_ms: int,
        marker: tuple[bool, int] | None,
    ) -> AppendInfo:
        base = self.log_end_offset
        header = new_tuple(BatchHeader, (base, header.length, leader_epoch, *header[3:]))
        size = len(view)
        if self._is_full(header, size, 0, wall_ms):  # the batch does not fit the active segment
            self._roll_for(header)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base)
        head = PATCH.pack(base, header.length, leader_epoch)
        self._write(header, [head, view[PATCH_SIZE:]], size, marker)
        stamped = header.max_timestamp if header.is_log_append_time else -1
        return AppendInfo(base, header.last_offset, stamped)

    def append_as_follower(
        self, records: Buffer, leader_epoch: int = EPOCH_MAX, *, takes_gaps: bool = True
    ) -> AppendInfo:
        """Append a run of whole batches as the leader of `leader_epoch` sent them: offsets, epochs and bytes
        stay. A cut-off batch at the end is ignored. Raises :class:`CorruptBatchError`, :class:`KafkaError`
        where the offsets do not follow (:class:`UnexpectedGap` where some are missing and it does not
        `takes_gaps`) or an epoch is a later one: what came before such a batch is appended. Raises
        ``OSError``."""
        view = memoryview(records)
        if self.log_start_offset == self.log_end_offset > 0:
            truncation.begin_inside(self, view)
        end, first = self.log_end_offset, -1
        headers: list[BatchHeader] = []
        start = position = 0
        try:
            while len(view) - position >= HEADER_SIZE:
                header = read_header(view, position)
                check_shape(header, position)
                size = header.length + LENGTH_PREFIX
                if size > len(view) - position:
                    break
                check_crc(header, view, position)
                if header.base_offset != end:
                    if header.base_offset < end:
                        raise KafkaError(
                            ErrorCode.OFFSET_OUT_OF_RANGE,
                            f"{self.partition}: offset {header.base_offset} does not follow {end}",
                        )
                    if not takes_gaps:
                        raise UnexpectedGap(end, header.base_offset)
                if header.leader_epoch > leader_epoch:
                    # Kafka's leader may send what its successor wrote there meanwhile (KAFKA-18723).
                    raise KafkaError(
                        ErrorCode.UNKNOWN_LEADER_EPOCH,
                        f"{self.partition}: offset {header.base_offset} has leader epoch"
                        f" {header.leader_epoch}, its leader {leader_epoch}",
                    )
                if first < 0:
                    first = header.base_offset
                pending, stamp = position - start, header.max_timestamp
                if self._is_full(header, size, pending, stamp, len(headers)):
                    run, headers = headers, []
                    self._append_run(view[start:position], run)
                    start = position
                    self._roll_for(header)
                headers.append(header)
                end = header.next_offset
                position += size
        finally:
            self._append_run(view[start:position], headers)
        return AppendInfo(first, self.log_end_offset - 1, -1)

    def _append_run(self, data: memoryview, headers: list[BatchHeader]) -> None:
        """Write batches that follow each other at once, and take note of each."""
        if not headers:
            return
        self.segments[-1].append_run(data, headers)
        position, epochs, durability = 0, self.epochs, self.durability
        latest = epochs.latest
        for header in headers:
            size = header.length + LENGTH_PREFIX
            if header.leader_epoch > latest:
                epochs.assign(header.leader_epoch, header.base_offset)
                latest = header.leader_epoch
            if header.producer_id >= 0:
                marker = None
                if header.attributes & CONTROL:
                    marker = transaction_index.marker_of(header, data[position : position + size])
                self._note_producer(header, marker)
            durability.unsynced_messages += header.last_offset_delta + 1
            position += size
        self.log_end_offset = headers[-1].next_offset
        self.producers.end_offset = self.log_end_offset

    def _write(
        self,
        header: BatchHeader,
        parts: list[Buffer],
        size: int,
        marker: tuple[bool, int] | None,
    ) -> None:
        self.segments[-1].append(parts, size, header)
        self.log_end_offset = header.next_offset
        self.durability.unsynced_messages += header.last_offset_delta + 1
        if header.producer_id >= 0:
            self._note_producer(header, marker)
        else:
            self.producers.end_offset = self.log_end_offset

    def _note_producer(self, header: BatchHeader, marker: tuple[bool, int] | None) -> None:
        done = self.producers.update(header, marker)
        if done is not None and done.aborted:
            stable = self.producers.stable_behind(done)
            transaction_index.append_aborted(self.files, self.active, done, stable)
            self.durability.dirty_names.happened()  # perhaps the first of its segment

    def _is_full(
        self, header: BatchHeader, size: int, pending: int, wall_ms: int, batches: int = 0
    ) -> bool:
        """Whether the batch needs a new segment, where `pending` bytes of `batches` are to be written before
        it."""
        segment = self.segments[-1]
        filled = segment.size + pending
        # An empty one, too: what a leader's compaction left may begin far behind it.
        if header.base_offset + header.last_offset_delta - segment.base_offset > RELATIVE_MAX:
            return True
        return filled > 0 and (
            (
                filled + size > segment.size_with_room
                and not self._has_room(segment, filled + size, pending, batches)
            )
            or _is_old(self, segment, header.max_timestamp, wall_ms)
        )

    def _has_room(self, segment: Segment, size: int, pending: int, batches: int) -> bool:
        """Whether `segment` may grow to `size` bytes, of which `pending` are of `batches` that its indexes do
        not have yet. Where it may, its `size_with_room` follows."""
        config, interval = self.config, segment.index_interval
        coming = min(batches, pending // (interval + 1) + 1) if batches else 0
        bytes_max = config.segment_index_bytes
        room = min(segment.index.room(bytes_max), segment.time_index.room(bytes_max)) - coming
        if size > config.segment_bytes or room <= 0:
            return False
        # More than an interval of bytes lies between two entries; the first may come with this batch.
        more = (room - 3) * interval if room > 3 else 0
        segment.size_with_room = min(config.segment_bytes, size + more)
        return True

    def _roll_for(self, header: BatchHeader) -> None:
        # At the log's end, even where the batch leaves a gap: recovery wants no gap between segments.
        far = header.last_offset - self.log_end_offset > RELATIVE_MAX
        self.roll(header.base_offset if far else None)

    def roll(self, base_offset: int | None = None) -> Segment:
        """Begin a new segment at `base_offset` (the log's end where not given); an empty one stays."""
        base = self.log_end_offset if base_offset is None else base_offset
        if base == self.active.base_offset:
            return self.active
        self.active.finish()
        self.write_producer_snapshot(base)
        self.durability.on_rolled(self.log_end_offset)
        self.generations.on_rolled()
        return self.add_segment(base)

    def write_producer_snapshot(self, offset: int) -> None:
        """Write what is known of producers before `offset` as a file; it makes opening cheap."""
        if offset > self.snapshots.newest:
            self.producers.end_offset = offset
            write_snapshot(self.disk, self.directory, self.producers, durable=False)
            self.snapshots.on_written(offset)
            self.durability.dirty_names.happened()

    def add_segment(self, base_offset: int) -> Segment:
        segment = Segment(
            self.files, self.directory, base_offset, 0, self.config.index_interval_bytes
        )
        segment.make(self.config.segment_bytes if self.config.preallocate else 0)
        self.segments.append(segment)
        self.index_segments()
        self.durability.dirty_names.happened()
        return segment

    # -- cutting ---------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset` on (the whole batch that holds it). Whether anything went. Raises
        :class:`CorruptLogError`, with nothing dropped, where a batch that rotted below the high watermark
        hides where to cut: it has to be mended first."""
        return truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record has `offset`."""
        truncation.truncate_fully_and_start_at(self, offset)

    def advance_log_start(self, offset: int) -> bool:
        """Records below `offset` are gone for readers; whole segments below it go by retention."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        self.epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(
        self, wall_ms: int, *, may_delete_to: int | None = None
    ) -> list[Segment]:
        """Take out segments that retention does not keep, none at or above `may_delete_to` (the high
        watermark where None). Their files are renamed to ``.deleted``, see `deleted_paths`."""
        bound = self.high_watermark if may_delete_to is None else may_delete_to
        return retention.delete_old_segments(self, wall_ms, bound)

    # -- durability ------------------------------------------------------------------------------

    def sync_job(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """(blocking job, what to call when it is done): makes durable what is there now, and moves
        the recovery point."""
        return flush_jobs.sync_job(self)

    def sync_log_job(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """A `sync_job` for the batches alone, which is all that a commit of the quorum needs: indexes
        are rebuilt where they are missing. Does not move the recovery point."""
        return flush_jobs.sync_log_job(self)

    def flush(self) -> None:
        """Make everything durable now. Blocks."""
        job, on_synced = self.sync_job()
        job()
        on_synced()

    def close(self, *, clean: bool = True) -> None:
        """Write what is written behind, and give the files back. Blocks where `clean`."""
        if clean:
            job, finish = flush_jobs.close_job(self)
            job()
            finish()
        else:
            flush_jobs.close_files(self)

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.partition}, {self.log_start_offset} to {self.log_end_offset},"
            f" high watermark {self.high_watermark}, {len(self.segments)} segments)"
        )


def _duplicate_of(earlier: WrittenBatch) -> AppendInfo:
    return AppendInfo(earlier.first_offset, earlier.last_offset, earlier.timestamp, True)


def _is_old(log: PartitionLog, segment: Segment, timestamp: int, wall_ms: int) -> bool:
    """``segment.ms`` (see `LogConfig.roll_ms`) by the timestamps of the batches, by the clock where
    only the last one has none."""
    first = segment.first_timestamp
    if first is None or first < 0:
        return False
    age = (timestamp if timestamp >= 0 else wall_ms) - first
    if age <= log.roll_ms - log.config.segment_jitter_ms:
        return False
    return age > log.roll_ms - _jitter_ms(segment, min(log.config.segment_jitter_ms, log.roll_ms))


def _jitter_ms(segment: Segment, jitter_ms_max: int) -> int:
    """So that the logs of a topic do not all roll at once; the same for a segment after a restart."""
    return crc32c(segment.path.encode()) % jitter_ms_max if jitter_ms_max > 0 else 0


def _rules(config: LogConfig) -> ValidationRules:
    return ValidationRules(
        max_message_bytes=min(config.max_message_bytes, config.segment_bytes),
        record_bytes_max=config.max_decompressed_message_bytes,
        compact=config.compact,
        compression_type=config.compression_type,
        log_append_time=config.log_append_time,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        compression_level={
            "gzip": config.compression_gzip_level,
            "lz4": config.compression_lz4_level,
            "zstd": config.compression_zstd_level,
        }.get(config.compression_type),
    )


__all__ = [
    "EMPTY",
    "AppendInfo",
    "CorruptBatchError",
    "AppendOrigin",
    "PartitionLog",
    "ReadResult",
]
