"""Finding records by timestamp, as a job for another thread.

What the owner's thread knows (which segments there are, index entries that are not in their files yet) goes
into the job by value; the job opens files of its own, writes nothing, and finds a segment gone where
retention or a cut was quicker (:class:`LogMoved`: ask again). Where another segment came in its place
meanwhile (`Generations.replacement_count`) what the job says is void.

Source: ``UnifiedLog.fetchOffsetByTimestamp``, ``LogSegment.findOffsetByTimestamp`` for behaviour: control
records have timestamps, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple

from barnabas.limits import UNPACKED_BYTES_MAX
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.segments.checked_range import check_run
from barnabas.log.segments.indexes import OffsetIndex, TimeIndex
from barnabas.log.segments.segment import Segment
from barnabas.record.batch import HEADER_SIZE, CorruptBatchError
from barnabas.record.compression import UnpacksTooFarError
from barnabas.record.decode import records_of

if TYPE_CHECKING:
    from barnabas.log.partition.segmented_log import SegmentedLog

JOB_FILES = 8
NO_TIMESTAMP = -1
"""The timestamp of a record that its producer gave none: a search finds it where no record has another."""


class Stamped(NamedTuple):
    """A record's timestamp (ms) and offset."""

    timestamp: int
    offset: int


class LogMoved(Exception):
    """The log is not any more what the job was made for."""


class _Probe(NamedTuple):
    """One segment as the owner knows it."""

    base_offset: int
    size: int
    max_timestamp: int | None
    """None where the owner has not looked."""
    positions: OffsetIndex
    times: TimeIndex


def search_job(log: SegmentedLog, timestamp: int | None) -> Callable[[], Stamped | None]:
    """A job that finds the first record at or after `timestamp` (ms), or the first with the largest one
    where None; its answer is None where there is none. It blocks, and raises :class:`LogMoved`,
    :class:`CorruptLogError`, ``OSError``."""
    files = FileCache(log.disk, JOB_FILES, create=False)
    start = log.log_start_offset
    probes = [
        _Probe(
            segment.base_offset,
            segment.size,
            segment.known_max_timestamp,
            segment.index.copy_for(files),
            segment.time_index.copy_for(files),
        )
        for segment in log.segments[log.segment_index(start) :]
        if segment.size
    ]
    directory, interval = log.directory, log.config.index_interval_bytes

    def job() -> Stamped | None:
        try:
            segments = [
                Segment(files, directory, probe.base_offset, probe.size, interval)
                for probe in probes
            ]
            stamps = [_max_timestamp(probe) for probe in probes]
            wanted = timestamp
            if wanted is None:
                if probes and probes[0].base_offset < start:
                    stamps[0] = _largest_from(segments[0], probes[0], start)
                wanted = max(stamps, default=NO_TIMESTAMP)
            for segment, probe, stamp in zip(segments, probes, stamps, strict=True):
                if stamp >= wanted:
                    found = _search(segment, probe, wanted, start)
                    if found is not None:
                        return found
            return None
        except (FileNotFoundError, StructError) as error:
            # Gone, or an index that is shorter than it was.
            raise LogMoved(str(error)) from error
        finally:
            files.close_all()

    return job


def _max_timestamp(probe: _Probe) -> int:
    if probe.max_timestamp is not None:
        return probe.max_timestamp
    last = probe.times.last
    return -1 if last is None else last[0]


def _largest_from(segment: Segment, probe: _Probe, start: int) -> int:
    """The largest timestamp of the records from offset `start` on: earlier records are deleted."""
    largest = -1
    for batch in segment.headers(_sound_position(segment, probe, start - segment.base_offset)):
        if batch.header.next_offset <= start or batch.header.max_timestamp <= largest:
            continue
        if batch.header.size == HEADER_SIZE:  # what compaction left of a batch
            continue
        if batch.header.base_offset >= start:
            largest = batch.header.max_timestamp
        else:
            view = segment.view(batch)
            check_run(segment.path, segment.base_offset, batch.position, view.data)
            # A count that lies: no consumer reads the rest either.
            with suppress(CorruptBatchError):
                for record in records_of(view, UNPACKED_BYTES_MAX):
                    if record.offset >= start:
                        largest = max(largest, record.timestamp)
    return largest


def _search(segment: Segment, probe: _Probe, timestamp: int, start: int) -> Stamped | None:
    """The first record of the segment at or after `timestamp` and from offset `start` on."""
    for batch in segment.headers(_start(segment, probe, timestamp)):
        if batch.header.max_timestamp < timestamp or batch.header.next_offset <= start:
            continue
        view = segment.view(batch)
        check_run(segment.path, segment.base_offset, batch.position, view.data)
        try:
            for record in records_of(view, UNPACKED_BYTES_MAX):
                if record.timestamp >= timestamp and record.offset >= start:
                    return Stamped(record.timestamp, record.offset)
        except CorruptBatchError as error:
            if isinstance(error.__cause__, UnpacksTooFarError):
                # Too large to look for the record: a consumer that begins with its batch misses nothing.
                return Stamped(batch.header.base_timestamp, max(batch.header.base_offset, start))
            continue  # a count that lies: no consumer can read its records either
    return None


def _start(segment: Segment, probe: _Probe, timestamp: int) -> int:
    """The position from which to look for `timestamp`: the last time entry before it tells, where the batch
    that it names has the timestamp that it says. All of the segment otherwise."""
    entry = probe.times.floor(timestamp - 1)
    if entry is None:
        return 0
    position = _sound_position(segment, probe, entry[1])
    for batch in segment.headers(position):
        if batch.header.last_offset >= segment.base_offset + entry[1]:
            return position if batch.header.max_timestamp == entry[0] else 0
    return 0


def _sound_position(segment: Segment, probe: _Probe, relative: int) -> int:
    """The position from which to look for the batch with relative offset `relative`: where the index
    points to, or the beginning where that is no batch."""
    position = probe.positions.position_below(relative)
    try:
        first = next(segment.headers(position), None)
        sound = first is not None and first.header.base_offset <= segment.base_offset + relative
    except CorruptLogError:
        sound = False
    return position if sound else 0
