"""Rebuilds the producer state of a log that was opened, truncated or repaired: from the newest valid snapshot
and the batches after it.

Source: Kafka's ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.log.errors import CorruptLogError
from barnabas.log.file_names import SNAPSHOT, file_name
from barnabas.log.segments import transaction_index
from barnabas.log.segments.segment import Located, Segment
from barnabas.log.state.producer_state import CompletedTransaction, snapshot_offsets
from barnabas.record.batch import CorruptBatchError

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


OnAborted = Callable[[Segment, CompletedTransaction], None]


def remove_snapshots(log: PartitionLog, from_offset: int) -> None:
    """Remove the producer snapshots at `from_offset` and later. With 0 the directory is listed even if the
    log knows of no snapshot: a process that was killed while it removed all of them left some."""
    if log.snapshots.newest < from_offset != 0:
        return
    log.snapshots.on_none_left()
    for offset in snapshot_offsets(log.disk, log.directory):
        if offset >= from_offset:
            log.disk.remove(f"{log.directory}/{file_name(offset, SNAPSHOT)}")
        else:
            log.snapshots.on_found(offset)


def rebuild_producers(
    log: PartitionLog, on_aborted: OnAborted | None = None, none_from: int | None = None
) -> None:
    """Rebuild from the newest valid snapshot and the batches after it. `on_aborted` gets the aborted
    transactions whose markers are among these. Batches that end after offset `none_from` are known to have no
    producer and are not read."""
    from_offset = load_producer_snapshot(log)
    for at in range(log.segment_index(from_offset), len(log.segments)):
        segment = log.segments[at]
        if none_from is not None and max(segment.base_offset, from_offset) >= none_from:
            break
        _replay_segment(log, segment, from_offset, none_from, on_aborted)
    log.producers.end_offset = log.log_end_offset
    log.producers.first_unstable_offset(log.high_watermark)


def on_repaired(log: PartitionLog, base: int) -> None:
    """The segment at `base` was repaired: rebuild producer state that was made without its corrupt batches.
    In that state, and in later snapshots, a transaction that ended there is still open. Blocks."""
    if base in log.snapshots.suspect_segments:
        remove_snapshots(log, base + 1)
        rebuild_producers(log)


def _replay_segment(
    log: PartitionLog,
    segment: Segment,
    from_offset: int,
    none_from: int | None,
    on_aborted: OnAborted | None,
) -> None:
    at = log.segment_index(segment.base_offset) + 1
    end = log.segments[at].base_offset if at < len(log.segments) else log.log_end_offset
    for batch in _readable_batches(log, segment, max(from_offset, segment.base_offset)):
        header = batch.header
        if header.next_offset > end:  # its offset is corrupt: no CRC covers that
            log.snapshots.suspect(segment.base_offset)
            continue
        if none_from is not None and header.next_offset > none_from:
            break
        if header.producer_id < 0 or header.next_offset <= from_offset:
            continue
        marker = None
        if header.is_control:
            try:
                marker = transaction_index.marker_of(header, segment.view(batch).data)
            except CorruptBatchError:  # reported when it is read
                continue
        done = log.producers.update(header, marker)
        if done is not None and done.aborted and on_aborted is not None:
            on_aborted(segment, done)


def _readable_batches(log: PartitionLog, segment: Segment, offset: int) -> Iterator[Located]:
    """The batches from the one that holds `offset` on. After a corrupt batch, which is reported when a client
    reads it, continue with the next batch in the offset index."""
    damaged = -1
    log.snapshots.trust(segment.base_offset)
    while True:
        try:
            if damaged < 0:
                position = segment.position_of_batch_with(offset)
            else:
                behind = (at for _, at in segment.index.entries() if at > damaged)
                position = next(behind, None)
            if position is None:
                return
            yield from segment.headers(position)
            return
        except CorruptLogError as error:
            damaged = max(damaged, error.position)
            log.snapshots.suspect(segment.base_offset)


def load_producer_snapshot(log: PartitionLog) -> int:
    """Load the newest valid snapshot, and remove invalid ones. Returns the offset from which to replay.

    A snapshot below the log start offset is valid if the first segment reaches that far: a transaction that
    ended there must not stay open. A snapshot below the first segment is not: the batches in between are
    gone."""
    first = log.segments[0].base_offset
    for offset in reversed(snapshot_offsets(log.disk, log.directory)):
        path = f"{log.directory}/{file_name(offset, SNAPSHOT)}"
        if first <= offset <= log.log_end_offset:
            try:
                log.producers.load(log.disk.read_file(path), offset)
            except ValueError as error:  # an earlier snapshot, or the batches, give the same state
                log.files.on_rebuilt(path, str(error))
            else:
                log.snapshots.on_found(offset)
                return offset
        log.disk.remove(path)
    log.snapshots.on_none_left()
    log.producers.clear(first)
    return first
