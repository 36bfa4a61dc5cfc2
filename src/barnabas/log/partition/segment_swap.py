"""Puts a rewritten segment in place of old ones, so that a crash at any point leaves the old segments or the
new one.

Compaction and mending write a segment under a suffix of their own (``.cleaned``, ``.repaired``), which
opening a log drops. Once it is whole and durable its files become ``.swap``, the batches last; then the old
segments go, and the names lose the suffix. So a ``.log.swap`` marks a swap that has to be finished.

Source: Kafka's ``UnifiedLog.replaceSegments``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import (
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    offset_of,
)
from barnabas.log.segments.segment import Segment, mark_deleted
from barnabas.ports import Disk

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

READ_ATTEMPTS = 3
"""How often the batches that a crash left are read: the disk may misread once, so the middle result counts
before other segments are deleted."""
BATCHES_LAST = (INDEX, TIME_INDEX, TXN_INDEX, LOG)
"""Their name says that the rest is there."""


def remove_leftovers(disk: Disk, directory: str, base: int, suffix: str) -> None:
    """Files of a segment that was given up before it took a place."""
    for kind in SEGMENT_SUFFIXES:
        path = f"{directory}/{file_name(base, kind)}{suffix}"
        if disk.exists(path):
            disk.remove(path)


def make_durable(disk: Disk, directory: str, segment: Segment) -> None:
    """Blocks. Raises ``OSError``."""
    for path in (
        segment.path,
        segment.index.path,
        segment.time_index.path,
        segment.transaction_index_path,
    ):
        with suppress(FileNotFoundError):
            file = disk.open(path)
            try:
                file.sync()
            finally:
                file.close()
    disk.sync_dir(directory)


def replace_segments(log: PartitionLog, old: Sequence[Segment], size: int, suffix: str) -> None:
    """Put the new segment of `size` bytes, whose files end in `suffix` and are durable, in place of `old`,
    which are side by side and none of which is active. It is as trusted as they are: what no CRC covers
    may have been taken over from them. Their files are added to `deleted_paths`. Raises ``OSError``."""
    base = old[0].base_offset
    for kind in BATCHES_LAST:
        path = f"{log.directory}/{file_name(base, kind)}"
        if log.disk.exists(path + suffix):
            log.disk.rename(path + suffix, path + SWAP)
    for segment in old:
        log.deleted_paths.extend(mark_deleted(log.disk, segment))
    for segment in old[1:]:
        snapshot = f"{log.directory}/{file_name(segment.base_offset, SNAPSHOT)}"
        if log.disk.exists(snapshot):
            log.disk.remove(snapshot)
    _take_names(log.disk, log.directory, base)
    new = Segment(log.files, log.directory, base, size, log.config.index_interval_bytes)
    if not any(segment.checked.trusted_from for segment in old):
        new.checked.trust_from(0)
    at = log.segments.index(old[0])
    log.segments[at : at + len(old)] = [new]
    log.index_segments()
    log.generations.on_replaced()
    log.durability.dirty_names.happened()


def finish(disk: Disk, directory: str, base: int) -> None:
    """After a crash: put the segment at `base`, of which there is a ``.log.swap``, in place of those that
    it covers: no more than it surely does, and never the active one. Raises ``OSError``."""
    names = disk.list_dir(directory)
    active = max((offset_of(name) or 0 for name in names if name.endswith(LOG)), default=0)
    ends = sorted(_end_of_batches(disk, directory, base) for _ in range(READ_ATTEMPTS))
    end = min(ends[READ_ATTEMPTS // 2], active)
    for name in reversed(names):
        other = offset_of(name)
        if other is not None and base < other < end and not name.endswith((SWAP, SNAPSHOT)):
            disk.remove(f"{directory}/{name}")
    _take_names(disk, directory, base)


def _take_names(disk: Disk, directory: str, base: int) -> None:
    """The files of the new segment get their names; an old list of aborted transactions, of which
    nothing is left, goes."""
    for kind in BATCHES_LAST:
        path = f"{directory}/{file_name(base, kind)}"
        if disk.exists(path + SWAP):
            disk.rename(path + SWAP, path)
        elif kind == TXN_INDEX and disk.exists(path):
            disk.remove(path)


def _end_of_batches(disk: Disk, directory: str, base: int) -> int:
    """The offset behind the sound batches with which the new segment begins. What rotted, or was misread,
    would name any."""
    size = disk.size(f"{directory}/{file_name(base, LOG)}{SWAP}")
    files, end = FileCache(disk, create=False), base
    segment = Segment(files, directory, base, size, 0, suffix=SWAP)
    try:
        for header, _ in segment.headers(crc=True):
            if header.base_offset < end or segment.would_overflow(header.last_offset):
                break
            end = header.next_offset
    except CorruptLogError:  # reported when it is read
        pass
    finally:
        files.close_all()
    return end
