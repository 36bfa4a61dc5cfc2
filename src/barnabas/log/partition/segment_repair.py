"""Mending a segment in which a batch rotted, with what another replica has in its place.

The log keeps its ends, its leader epochs and all offsets: only the bytes of the damaged stretch are replaced,
in a new file that takes the old one's place at once (:mod:`barnabas.log.partition.segment_swap`). So nothing
that was acknowledged is given up, whatever role the replica has, and readers of other offsets never notice.

:func:`examine` and :func:`rebuild` are jobs for another thread; :func:`swap_in` is the owner's. The checks
of :class:`SegmentRepair` make sure that what comes from elsewhere is what stood here: whole batches
with right CRCs, offsets that fit the gap, and the leader epochs that this log knows for them (log matching:
one offset in one epoch is one batch). What is known of epochs may have been learned from one that rotted:
where the same batch is still legible here, the other replica's epoch counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from struct import error as StructError
from typing import NamedTuple

from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.file_names import REPAIRED
from barnabas.log.partition import producer_state_recovery, segment_swap
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segments.segment import Located, Segment
from barnabas.ports import Disk
from barnabas.record.batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    CorruptBatchError,
    iterate,
    read_header,
)
from barnabas.types import Buffer

REPAIR_BYTES_MAX = 256 * 1024 * 1024
"""A larger damage is not mended: it is better to recreate the replica."""


class SegmentLocation(NamedTuple):
    """A segment that no append touches any more, as a job needs it."""

    disk: Disk
    directory: str
    base_offset: int
    size: int
    end_offset: int
    """The offset at which the next segment begins."""
    end_epoch: int
    """The leader epoch with which the next segment begins; none of this one is above it."""
    index_interval: int
    truncation_count: int
    """The number of cuts of the log: another cut makes the work void."""
    compacted: bool
    """Whether offsets may be missing."""


class Damage(NamedTuple):
    """The damage that another replica has to mend: the batches from `first_offset` up to `next_offset`."""

    start: int
    """Position; the batches before are sound."""
    first_offset: int
    resume: int
    """Position from which the batches are sound again; the file's size where they never are."""
    next_offset: int
    legible: Mapping[int, int]
    """Base offset → CRC of the batches in between that are whole: of these only what no CRC covers rotted."""


def location_of(log: PartitionLog, path: str) -> SegmentLocation | None:
    """The segment whose batches are in the file `path`, closed for appends. None where it is gone.
    Raises ``OSError``."""
    at = next((at for at, segment in enumerate(log.segments) if segment.path == path), None)
    if at is None:
        return None
    if log.segments[at] is log.active:
        log.roll()
    if log.segments[at] is log.active:
        return None
    segment, end = log.segments[at], log.end_of_segment(at)
    return SegmentLocation(
        log.disk, log.directory, segment.base_offset, segment.size, end, log.epoch_from(end),
        log.config.index_interval_bytes, log.generations.truncation_count, log.config.compact,
    )  # fmt: skip


# -- jobs --------------------------------------------------------------------------------------------


def examine(place: SegmentLocation) -> Damage | None:
    """Read the segment and find its first damage; None where all of it is sound. Blocks. Raises
    ``OSError``."""
    files = FileCache(place.disk, 4, create=False)  # what retention took stays gone
    try:
        segment = _segment(place, files)
        sound = list[Located]()
        fault = _walk(segment, place, sound)
        if fault is None:
            return None
        start = sound[-1].position + sound[-1].header.size if sound else 0
        first = sound[-1].header.next_offset if sound else place.base_offset
        resume, next_offset = _resume(segment, place, max(start, fault), first)
        return Damage(start, first, resume, next_offset, _legible(segment, start, resume))
    finally:
        files.close_all()


def _legible(segment: Segment, start: int, resume: int) -> dict[int, int]:
    found: dict[int, int] = {}
    with suppress(CorruptLogError):
        for batch in segment.headers(start, crc=True):
            if batch.position >= resume:
                break
            found[batch.header.base_offset] = batch.header.crc
    return found


def _walk(segment: Segment, place: SegmentLocation, sound: list[Located]) -> int | None:
    """Gather the sound batches before the first damage; the position where it was noticed. The CRC
    covers no offsets: a batch that reaches into the one behind it is itself under suspicion, and so is one
    whose leader epoch is above that of the one behind it."""
    try:
        for batch in segment.headers(crc=True):
            end = sound[-1].header.next_offset if sound else place.base_offset
            if batch.header.base_offset < end or batch.header.next_offset > place.end_offset:
                while sound and sound[-1].header.next_offset > batch.header.base_offset:
                    sound.pop()
                return batch.position + batch.header.size
            if sound and sound[-1].header.leader_epoch > batch.header.leader_epoch:
                while sound and sound[-1].header.leader_epoch > batch.header.leader_epoch:
                    sound.pop()
                return batch.position + batch.header.size
            sound.append(batch)
    except CorruptLogError as error:
        if sound and _reaches_too_far(segment, place, sound, error.position):
            sound.pop()
        return error.position
    if sound and sound[-1].header.leader_epoch > place.end_epoch:
        while sound and sound[-1].header.leader_epoch > place.end_epoch:
            sound.pop()
        return segment.size
    return None


def _reaches_too_far(
    segment: Segment, place: SegmentLocation, sound: list[Located], fault: int
) -> bool:
    """Whether the last sound batch, behind a gap, reaches into the damaged one at `fault`, as far as that
    still tells: its own offset rotted as well."""
    last = sound[-1].header
    end = sound[-2].header.next_offset if len(sound) > 1 else place.base_offset
    if last.base_offset == end:
        return False
    data = segment.file().read_at(fault, HEADER_SIZE)
    if len(data) < HEADER_SIZE:
        return False
    damaged = read_header(data)
    return damaged.magic == MAGIC and damaged.base_offset < last.next_offset


def _resume(segment: Segment, place: SegmentLocation, noticed: int, first: int) -> tuple[int, int]:
    """(position, offset) from which everything to the segment's end is sound, behind the damage that was
    noticed at or before position `noticed`."""
    tried = noticed - 1
    for position in _boundaries(segment, noticed):
        if position > tried:
            offset, tried = _sound_from(segment, place, position, first)
            if offset is not None:
                return position, offset
    return segment.size, place.end_offset


def _boundaries(segment: Segment, noticed: int) -> Iterator[int]:
    """The positions where batches begin from `noticed` on, as the damaged one's length and the index tell."""
    with suppress(ValueError, StructError):
        header = read_header(segment.file().read_at(noticed, HEADER_SIZE))
        if 0 < header.size < segment.size - noticed:
            yield noticed
            yield noticed + header.size
    with suppress(ValueError, StructError):
        for _, position in segment.index.entries():
            if noticed < position < segment.size:
                yield position


def _sound_from(
    segment: Segment, place: SegmentLocation, position: int, first: int
) -> tuple[int | None, int]:
    """The offset of the batch at `position`, where it and all behind it are sound; else None, and the
    position of what is not."""
    begin: int | None = None
    end, epoch = first + 1, -1
    try:
        for batch in segment.headers(position, crc=True):
            if batch.header.base_offset < end or batch.header.next_offset > place.end_offset:
                return None, batch.position
            if batch.header.leader_epoch < epoch:
                return None, batch.position
            begin = batch.header.base_offset if begin is None else begin
            end, epoch = batch.header.next_offset, batch.header.leader_epoch
    except CorruptLogError as error:
        return None, error.position
    if epoch > place.end_epoch:
        return None, segment.size
    return begin, position


def rebuild(place: SegmentLocation, damage: Damage, batches: list[bytes]) -> int:
    """Rewrite the segment with `batches` in place of the damage, durably, under names that opening a
    log drops; its size. Blocks. Raises :class:`CorruptLogError`, ``OSError``."""
    files, sources = FileCache(place.disk, 6), FileCache(place.disk, 4, create=False)
    segment_swap.remove_leftovers(place.disk, place.directory, place.base_offset, REPAIRED)
    target = Segment(
        files, place.directory, place.base_offset, 0, place.index_interval, suffix=REPAIRED
    )
    try:
        target.make()
        source, before = _segment(place, sources), _segment(place, sources)
        before.size = damage.start
        for located in before.headers(crc=True):
            _copy(source, located, target)
        for data in batches:
            target.append([data], len(data), read_header(data))
        if damage.resume < source.size:
            for located in source.headers(damage.resume, crc=True):
                _copy(source, located, target)
        # Where all files of the segment were lost, the empty index says only that it has to be proved.
        index = files.get(target.transaction_index_path)
        if place.disk.exists(source.transaction_index_path):
            index.append([place.disk.read_file(source.transaction_index_path)])
        target.finish()
        segment_swap.make_durable(place.disk, place.directory, target)
        return target.size
    except Exception:
        files.close_all()
        with suppress(OSError):  # the next start removes it
            segment_swap.remove_leftovers(place.disk, place.directory, place.base_offset, REPAIRED)
        raise
    finally:
        files.close_all()
        sources.close_all()


def _copy(source: Segment, located: Located, target: Segment) -> None:
    target.append([source.view(located).data], located.header.size, located.header)


def _segment(place: SegmentLocation, files: FileCache) -> Segment:
    return Segment(files, place.directory, place.base_offset, place.size, place.index_interval)


# -- what comes from elsewhere -----------------------------------------------------------------------


class SegmentRepair:
    """The batches that another replica gives for a damage, until they fill it."""

    def __init__(self, log: PartitionLog, location: SegmentLocation, damage: Damage) -> None:
        self._epochs = log.epochs
        self._location = location
        self._damage = damage
        self.batches: list[bytes] = []
        self._least = damage.first_offset
        """No batch may begin before."""
        self.next_offset = max(damage.first_offset, min(log.log_start_offset, damage.next_offset))
        """The offset to fetch next; deleted offsets are skipped, for no replica has them."""
        self.size = 0
        self.diverges_at = -1
        """The offset at which the other replica continues with a later leader epoch than this log has
        there."""
        self.is_complete = self.next_offset == damage.next_offset
        self.runs: list[tuple[int, int]] = []
        """(leader epoch, base offset) of each batch."""
        self._epoch_is_other = False

    def add(self, records: Buffer) -> bool:
        """Take what fits of a fetched run; whether it brought anything. Raises ``ValueError`` with the
        reason where it cannot be what stood here."""
        before = self.next_offset
        try:
            for batch in iterate(records, crc=True):
                header = batch.header
                if header.next_offset <= self.next_offset:
                    continue
                if header.base_offset >= self._damage.next_offset:
                    self._end(header.base_offset)
                    break
                self._check(header)
                self.runs.append((header.leader_epoch, header.base_offset))
                self.batches.append(bytes(batch.data))
                self.size += header.size
                self._least = self.next_offset = header.next_offset
                if self.next_offset == self._damage.next_offset:
                    self.is_complete = True
                    break
        except CorruptBatchError as error:
            raise ValueError(f"what it sent is corrupt: {error}") from error
        if self.size > REPAIR_BYTES_MAX:
            raise ValueError(f"more than {REPAIR_BYTES_MAX} bytes are damaged")
        return self.is_complete or self.next_offset > before

    def _check(self, header: BatchHeader) -> None:
        base, epoch = header.base_offset, header.leader_epoch
        if header.next_offset > self._damage.next_offset or base < self._least:
            end = header.next_offset - 1
            raise ValueError(f"a batch of offsets {base} to {end} does not fit the gap")
        if base > self.next_offset and not self._location.compacted:
            raise ValueError(f"offsets {self.next_offset} to {base - 1} are missing")
        known = self._epochs.epoch_of(base)
        if known < 0 or known == epoch:
            return
        if self._damage.legible.get(base) == header.crc and epoch <= self._location.end_epoch:
            self._epoch_is_other = True
            return
        if epoch > known and base == self.next_offset:
            self.diverges_at = base
        raise ValueError(f"offset {base} has leader epoch {epoch}, here {known}")

    def correct_epochs(self) -> None:
        """The batches are in the log: what it knows of epochs has to agree with them."""
        if self._epoch_is_other:
            self._epochs.correct(self._damage.first_offset, self.next_offset, self.runs)

    def _end(self, following: int) -> None:
        """The other replica continues behind the gap: the missing offsets were compacted away."""
        if self.next_offset < self._damage.next_offset and not self._location.compacted:
            raise ValueError(f"offsets {self.next_offset} to {following - 1} are missing")
        self.is_complete = True


# -- on the owner's thread ---------------------------------------------------------------------------


def swap_in(log: PartitionLog, place: SegmentLocation, size: int) -> bool:
    """Put the mended segment in place of the old one; False where the log was cut or the segment
    replaced meanwhile. The old files are added to `deleted_paths`. Raises ``OSError``."""
    base = place.base_offset
    at = next((at for at, s in enumerate(log.segments) if s.base_offset == base), None)
    if (
        at is None
        or log.generations.truncation_count != place.truncation_count
        or log.segments[at].size != place.size
        or log.segments[at] is log.active
    ):
        segment_swap.remove_leftovers(log.disk, log.directory, base, REPAIRED)
        return False
    segment_swap.replace_segments(log, [log.segments[at]], size, REPAIRED)
    log.segments[at].checked.trust_from(0)
    producer_state_recovery.on_repaired(log, base)
    return True
