"""Producer state of a log that was opened, cut or repaired: its newest usable snapshot and later batches.

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
    """Remove the producer snapshots at `from_offset` and behind. With 0 the directory is listed even where
    the log knows of no snapshot: a process that was killed while it removed all of them left some."""
    if log.snapshot_offset < from_offset != 0:
        return
    log.snapshot_offset = -1
    for offset in snapshot_offsets(log.disk, log.directory):
        if offset >= from_offset:
            log.disk.remove(f"{log.directory}/{file_name(offset, SNAPSHOT)}")
        else:
            log.snapshot_offset = offset


def rebuild_producers(
    log: PartitionLog, on_aborted: OnAborted | None = None, none_from: int | None = None
) -> None:
    """From the newest usable snapshot and the batches behind it. `on_aborted` receives the aborted
    transactions whose marker is among them. Batches that end behind `none_from` are known to have no
    producer and are not read."""
    from_offset = load_producer_snapshot(log)
    for at in range(log.segment_index(from_offset), len(log.segments)):
        segment = log.segments[at]
        if none_from is not None and max(segment.base_offset, from_offset) >= none_from:
            break
        _note_producers(log, segment, from_offset, none_from, on_aborted)
    log.producers.end_offset = log.log_end_offset
    log.producers.first_unstable_offset(log.high_watermark)


def on_repaired(log: PartitionLog, base: int) -> None:
    """The segment at `base` is whole again. Where producer state was made without what was damaged in it, a
    transaction that ended there is open, and snapshots since then say so, too. Blocks."""
    if base in log.suspect_segments:
        remove_snapshots(log, base + 1)
        rebuild_producers(log)


def _note_producers(
    log: PartitionLog,
    segment: Segment,
    from_offset: int,
    none_from: int | None,
    on_aborted: OnAborted | None,
) -> None:
    at = log.segment_index(segment.base_offset) + 1
    end = log.segments[at].base_offset if at < len(log.segments) else log.log_end_offset
    for batch in _sound_batches(log, segment, max(from_offset, segment.base_offset)):
        header = batch.header
        if header.next_offset > end:  # its offset rotted, which no CRC covers
            log.suspect_segments.add(segment.base_offset)
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


def _sound_batches(log: PartitionLog, segment: Segment, offset: int) -> Iterator[Located]:
    """The batches from the one that holds `offset` on. Behind a corrupt batch, which is reported when it
    is read, continues with the next batch that the index knows."""
    damaged = -1
    log.suspect_segments.discard(segment.base_offset)
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
            log.suspect_segments.add(segment.base_offset)


def load_producer_snapshot(log: PartitionLog) -> int:
    """Load the newest usable snapshot; the offset from which to continue. Batches that the log still has
    below its start count: a transaction that ended there must not stay open for ever. A snapshot of
    before the first segment says nothing of the batches in between, which are gone."""
    first = log.segments[0].base_offset
    for offset in reversed(snapshot_offsets(log.disk, log.directory)):
        path = f"{log.directory}/{file_name(offset, SNAPSHOT)}"
        if first <= offset <= log.log_end_offset:
            try:
                log.producers.load(log.disk.read_file(path), offset)
            except ValueError:
                pass  # corrupt: the one before, or the batches, say the same
            else:
                log.snapshot_offset = offset
                return offset
        log.disk.remove(path)
    log.snapshot_offset = -1
    log.producers.clear(first)
    return first
