"""One round of compaction of one log, as jobs for another thread, and the swap on the owner's.

A round reads the dirty part into a map of keys, then rewrites the log's inactive segments, in groups that
fill a segment. New files are ``.cleaned`` until they are whole and durable and take the old ones' place
(:mod:`barnabas.log.partition.segment_swap`).

Only what the recovery point vouches for whose checkpoint is in its place is compacted: recovery takes a gap
for a loss. (File systems keep names in order: no swap reaches the device before that checkpoint.)

Source: Kafka's ``Cleaner``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from barnabas.log.compaction.compaction_rules import (
    CompactionRules,
    OffsetMap,
    TrailedTransaction,
    TransactionTrail,
    compact_batch,
    note_keys,
)
from barnabas.log.config import FOREVER_MS, LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import CLEANED
from barnabas.log.partition import aborted_proof, segment_swap
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import Segment
from barnabas.ports import Disk
from barnabas.record.batch import (
    HEADER_SIZE,
    LENGTH_PREFIX,
    OFFSET_AND_LENGTH,
    BatchHeader,
    BatchView,
    CorruptBatchError,
    check_crc,
    check_shape,
    read_header,
)
from barnabas.types import Buffer

READ_BYTES = WRITE_BYTES = 1 << 20
"""The bytes that a job reads and writes at once; a batch that is larger is read whole."""
JOB_FILES = 16
"""Files that a job has open at once."""


class SourceSegment(NamedTuple):
    """A segment to be read by a job. `end_offset` is where the next one begins."""

    base_offset: int
    end_offset: int
    size: int
    index_bytes: int
    """The bytes of the larger of its two indexes."""
    aborted_seal: tuple[int, int] | None = None
    """The seal of aborted transactions that the owner's :class:`Segment` has."""


class CleaningPlan(NamedTuple):
    """The plan of one round; taken on the owner's thread, read on others."""

    disk: Disk
    directory: str
    config: LogConfig
    truncation_count: int
    """The number of cuts of the log when the plan was made: another cut makes it void."""
    sources: tuple[SourceSegment, ...]
    """Every segment that may be rewritten, from the log's first."""
    first_dirty: int
    bound: int
    """Nothing at or above is touched."""
    dirty_bytes: int
    clean_bytes: int
    first_dirty_timestamp: int
    """The earliest with which a dirty segment begins; -1 where none has any."""
    now_ms: int
    last_offsets: Mapping[int, tuple[int, int]]
    segments: tuple[SourceSegment, ...]
    """All: an aborted transaction is listed where its marker is, perhaps behind `bound`."""

    @property
    def dirty_ratio(self) -> float:
        total = self.dirty_bytes + self.clean_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether ``min.cleanable.dirty.ratio`` or ``max.compaction.lag.ms`` asks for the round."""
        if not self.dirty_bytes:
            return False
        age = self.now_ms - self.first_dirty_timestamp
        overdue = self.first_dirty_timestamp >= 0 and age > self.config.max_compaction_lag_ms
        return overdue or self.dirty_ratio > self.config.min_cleanable_dirty_ratio


class Cleaned(NamedTuple):
    """A segment that is ready to take the place of `sources`."""

    base_offset: int
    size: int
    sources: tuple[int, ...]
    bytes_read: int
    records: int
    aborted_seal: tuple[int, int]
    """The seal of its index of aborted transactions."""


def make_plan(
    log: PartitionLog, first_dirty: int, now_ms: int, durable_to: int | None = None
) -> CleaningPlan:
    """The plan of a round on `log`, from offset `first_dirty` of its checkpoint on. `durable_to`: as if the
    checkpoint of the recovery points vouched for what is below."""
    config = log.config
    durable_to = log.durability.compactable_to if durable_to is None else durable_to
    bound = min(log.last_stable_offset, log.active.base_offset, durable_to)
    sources, dirty, clean, oldest = [], 0, 0, -1
    first_dirty = max(first_dirty, log.bases[0])
    for at, segment in enumerate(log.segments[:-1]):
        end = log.end_of_segment(at)
        stamp = segment.max_timestamp
        too_young = 0 < config.min_compaction_lag_ms > now_ms - stamp
        if end > bound or (too_young and end > first_dirty):
            break
        index_bytes = max(segment.index.size(), segment.time_index.size())
        seal = segment.aborted_seal
        sources.append(SourceSegment(segment.base_offset, end, segment.size, index_bytes, seal))
        if end > first_dirty:
            dirty += segment.size
            first = _first_timestamp(segment, config, stamp)
            if first > 0 and not 0 < oldest <= first:
                oldest = first
        else:
            clean += segment.size
    live = {
        producer_id: (entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
        for producer_id, entry in log.producers.entries.items()
    }
    end = sources[-1].end_offset if sources else first_dirty
    return CleaningPlan(
        log.disk, log.directory, config, log.generations.truncation_count, tuple(sources), first_dirty, end,
        dirty, clean, oldest, now_ms, live, _all_segments(log),
    )  # fmt: skip


def _all_segments(log: PartitionLog) -> tuple[SourceSegment, ...]:
    return tuple(
        SourceSegment(
            segment.base_offset, log.end_of_segment(at), segment.size, 0, segment.aborted_seal
        )
        for at, segment in enumerate(log.segments)
    )


def _first_timestamp(segment: Segment, config: LogConfig, latest: int) -> int:
    """The first timestamp of the first batch, which a start does not read; `latest` if no compaction lag
    is configured."""
    if segment.first_timestamp is None and config.max_compaction_lag_ms < FOREVER_MS:
        with suppress(CorruptLogError, StopIteration):  # a batch rotted: reported when it is read
            segment.first_timestamp = next(segment.headers()).header.max_timestamp
    return latest if segment.first_timestamp is None else segment.first_timestamp


# -- jobs --------------------------------------------------------------------------------------------


def build_map(
    plan: CleaningPlan, keys_max: int, make_map: Callable[[int], OffsetMap] = OffsetMap
) -> OffsetMap:
    """The last offset of every key of the dirty part, as far as the map takes them. Blocks. Raises
    :class:`CorruptLogError`, ``OSError``."""
    keys, trail = make_map(keys_max), trail_of(plan)
    files = FileCache(plan.disk, JOB_FILES, create=False)
    keys.end = plan.first_dirty
    try:
        for source in plan.sources:
            if source.end_offset <= plan.first_dirty:
                continue
            segment = _segment(plan, files, source)
            if not _note_segment(segment, source.end_offset, plan.first_dirty, keys, trail):
                return keys
            keys.end = source.end_offset
        return keys
    finally:
        files.close_all()


def _note_segment(
    segment: Segment, end_offset: int, first_dirty: int, keys: OffsetMap, trail: TransactionTrail
) -> bool:
    """False where the map is full."""
    start = segment.position_of_batch_with(max(first_dirty, segment.base_offset))
    if start is None:
        return True
    reader = _Reader(segment, end_offset, start)
    while (window := reader.window()) is not None:
        size, end = keys.note_run(window, reader.low, reader.high, first_dirty)
        if size:
            reader.skip(size, end)
            trail.advance(end - 1)
            keys.end = end
            continue
        position, batch = reader.next_batch()
        header = batch.header
        if header.is_control:
            marker = transaction_index.marker_of(header, batch.data)
            if marker is not None:
                trail.on_marker(header, marker[0])
        elif not trail.on_data(header):
            if keys.is_full():
                return False
            try:
                note_keys(batch, keys, first_dirty)
            except CorruptBatchError as error:
                raise CorruptLogError(segment.path, position, error.why) from error
        keys.end = header.next_offset
    return True


class _Reader:
    """The batches of a segment from a position on, read in large pieces."""

    def __init__(self, segment: Segment, end_offset: int, start: int = 0) -> None:
        self._segment = segment
        self._file = segment.file()
        self._position = start
        self._window = memoryview(b"")
        self.low, self.high = segment.base_offset, end_offset
        """Within these the next batch's offsets have to be: no CRC covers them."""

    def window(self) -> memoryview | None:
        """The next bytes, at least one whole batch; None at the end. Raises :class:`CorruptLogError`,
        ``OSError``."""
        window = self._window
        if len(window) >= HEADER_SIZE:
            whole = OFFSET_AND_LENGTH.unpack_from(window)[1] + LENGTH_PREFIX
            if whole <= len(window):
                return window
        segment, position = self._segment, self._position
        left = segment.size - position
        if not left:
            return None
        window = memoryview(self._file.read_at(position, min(READ_BYTES, left)))
        whole = HEADER_SIZE
        if len(window) >= HEADER_SIZE:
            whole = OFFSET_AND_LENGTH.unpack_from(window)[1] + LENGTH_PREFIX
            if len(window) < whole <= left:
                window = memoryview(self._file.read_at(position, whole))
        if whole > len(window):
            raise CorruptLogError(segment.path, position, "the file ends inside a batch")
        self._window = window
        return window

    def next_batch(self) -> tuple[int, BatchView]:
        """The batch that `window` begins with, checked by CRC, and its position. Raises
        :class:`CorruptLogError`."""
        position, window = self._position, self._window
        try:
            header = read_header(window)
            check_shape(header)
            check_crc(header, window)
            if header.base_offset < self.low or header.next_offset > self.high:
                raise CorruptBatchError(0, "the offsets do not ascend")
        except CorruptBatchError as error:
            raise CorruptLogError(self._segment.path, position, error.why) from error
        self.skip(header.size, header.next_offset)
        return position, BatchView(header, 0, window[: header.size])

    def skip(self, size: int, next_offset: int) -> None:
        self.low = next_offset
        self._position += size
        self._window = self._window[size:]


def groups_of(plan: CleaningPlan, end: int) -> list[list[SourceSegment]]:
    """The segments below offset `end`, in groups that together fill one segment."""
    config, groups = plan.config, list[list[SourceSegment]]()
    size = index_bytes = 0
    for source in plan.sources:
        if source.base_offset >= end:
            break
        fits = (
            groups
            and size + source.size <= config.segment_bytes
            and index_bytes + source.index_bytes <= config.segment_index_bytes
            and source.end_offset - groups[-1][0].base_offset <= 0x7FFFFFFF
        )
        if not fits:
            groups.append([])
            size = index_bytes = 0
        groups[-1].append(source)
        size += source.size
        index_bytes += source.index_bytes
    return groups


def clean_group(
    plan: CleaningPlan, group: list[SourceSegment], keys: OffsetMap, trail: TransactionTrail
) -> Cleaned:
    """Rewrite `group` as one ``.cleaned`` segment and make it durable. Groups come in order, with one
    `trail` for the round. Blocks. Raises :class:`CorruptLogError`, ``OSError``."""
    # Files that retention deletes while this runs stay deleted: opening must not create them, empty.
    files, sources = FileCache(plan.disk, JOB_FILES), FileCache(plan.disk, JOB_FILES, create=False)
    base = group[0].base_offset
    remove_cleaned(plan, base)
    target = Segment(
        files, plan.directory, base, 0, plan.config.index_interval_bytes, suffix=CLEANED
    )
    rules = CompactionRules(
        plan.now_ms, plan.config.delete_retention_ms, plan.last_offsets, plan.bound
    )
    known, records = len(trail.kept), 0
    try:
        target.make()
        for source in group:
            segment = _segment(plan, sources, source)
            records += _clean_segment(segment, source.end_offset, target, keys, trail, rules)
        aborted = transaction_index.bytes_of(
            (
                transaction.producer_id,
                transaction.first_offset,
                transaction.last_offset,
                transaction.last_stable_offset,
            )
            for transaction in trail.kept[known:]
        )
        if aborted:
            files.get(target.transaction_index_path).append([aborted])
        target.finish()
        segment_swap.make_durable(plan.disk, plan.directory, target)
    except Exception:
        files.close_all()
        with suppress(OSError):  # the next start removes it
            remove_cleaned(plan, base)
        raise
    finally:
        files.close_all()
        sources.close_all()
    read = sum(source.size for source in group)
    seal = transaction_index.seal_of(aborted)
    return Cleaned(base, target.size, tuple(s.base_offset for s in group), read, records, seal)


def remove_cleaned(plan: CleaningPlan, base: int) -> None:
    """Remove what a round wrote for the group at `base` and did not swap in. Blocks. Raises ``OSError``."""
    segment_swap.remove_leftovers(plan.disk, plan.directory, base, CLEANED)


def _clean_segment(
    segment: Segment,
    end_offset: int,
    target: Segment,
    keys: OffsetMap,
    trail: TransactionTrail,
    rules: CompactionRules,
) -> int:
    """How many records were kept."""
    kept, parts, headers, size = 0, list[Buffer](), list[BatchHeader](), 0
    reader = _Reader(segment, end_offset)
    while (window := reader.window()) is not None:
        if size >= WRITE_BYTES:
            _append(target, keys, b"".join(parts), headers)
            parts, headers, size = [], [], 0
        run = keys.clean_run(window, reader.low, reader.high, rules.round_end)
        if run is not None:
            reader.skip(run.size, run.end)
            trail.advance(run.end - 1)
            kept += run.records
            parts.append(run.data)
            size += len(run.data)
            continue
        position, batch = reader.next_batch()
        marker = None
        if batch.header.is_control:
            marker = transaction_index.marker_of(batch.header, batch.data)
        try:
            outcome = compact_batch(
                batch, keys, trail, rules, None if marker is None else marker[0]
            )
        except CorruptBatchError as error:
            raise CorruptLogError(segment.path, position, error.why) from error
        if outcome.data is None:
            continue
        kept += outcome.records
        parts.append(outcome.data)
        headers.append(outcome.header)
        size += len(outcome.data)
    if size:
        _append(target, keys, b"".join(parts), headers)
    return kept


def _append(target: Segment, keys: OffsetMap, data: bytes, headers: list[BatchHeader]) -> None:
    """`headers` are those of all batches in `data` where `keys` does not do them at once."""
    indexed = keys.index_run(data, target.indexing())
    if indexed is None:
        target.append_run(data, headers)
    else:
        target.append_indexed(data, indexed)


def _segment(plan: CleaningPlan, files: FileCache, source: SourceSegment) -> Segment:
    return Segment(
        files, plan.directory, source.base_offset, source.size, plan.config.index_interval_bytes
    )


def trail_of(plan: CleaningPlan) -> TransactionTrail:
    """The trail for a walk over the log from its first segment. What the owner has not proved of the
    indexes is proved here: a wrong entry makes committed records void, or void ones the last of their
    key. Blocks. Raises :class:`CorruptLogError`, ``OSError``."""
    files, found = FileCache(plan.disk, JOB_FILES, create=False), list[TrailedTransaction]()
    segments = [_segment(plan, files, source) for source in plan.segments]
    try:
        for at, source in enumerate(plan.segments):
            path = segments[at].transaction_index_path
            if not plan.disk.exists(path):
                continue
            data = plan.disk.read_file(path)
            if _is_sealed(data, source):
                entries = transaction_index.entries_of(data)
            else:
                entries = aborted_proof.proven(
                    plan.disk, plan.directory, segments, at, source.end_offset, data
                )
            for producer_id, first, last, stable in entries:
                found.append(TrailedTransaction(first, last, producer_id, stable))
    finally:
        files.close_all()
    return TransactionTrail(found)


def _is_sealed(data: bytes, source: SourceSegment) -> bool:
    """Whether the active segment is sealed, as the owner knew it when it made the plan. What it added
    since is not below the plan's bound."""
    seal = source.aborted_seal
    return seal is not None and transaction_index.seal_of(data[: seal[0]]) == seal


# -- on the owner's thread ---------------------------------------------------------------------------


def swap(log: PartitionLog, plan: CleaningPlan, cleaned: Cleaned) -> bool:
    """Put the new segment in place of the old ones; False where the log was cut or lost some of them
    meanwhile, and the round is void. The old files are added to `deleted_paths`."""
    bases = set(cleaned.sources)
    old = [segment for segment in log.segments if segment.base_offset in bases]
    if (
        log.generations.truncation_count != plan.truncation_count
        or len(old) != len(bases)
        or log.active in old
    ):
        segment_swap.remove_leftovers(log.disk, log.directory, cleaned.base_offset, CLEANED)
        return False
    segment_swap.replace_segments(log, old, cleaned.size, CLEANED)
    log.segments[log.segment_index(cleaned.base_offset)].aborted_seal = cleaned.aborted_seal
    return True
