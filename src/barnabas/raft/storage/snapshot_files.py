"""Snapshot files: ``<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`` beside the log.

A snapshot is a run of batches: a control batch with SnapshotHeader (and, in a dynamic quorum,
KRaftVersion and Voters), batches of record values, a control batch with SnapshotFooter. Offsets in it
count from 0. It is written beside its name and renamed when it is durable, so that a file with
the right name is whole. ``bootstrap.checkpoint`` has the same form. Source: KIP-630, KIP-853.
Kafka's ``FileRawSnapshotWriter``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from barnabas.limits import RaftBounds
from barnabas.ports import Disk, File
from barnabas.raft.core.batches import (
    ControlRecord,
    batch_values,
    control_batch,
    control_records,
    data_batch,
    iter_runs,
    slices_of_values,
)
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.record.batch import CorruptBatchError
from barnabas.record.builder import ControlType
from barnabas.types import Buffer
from barnabas.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from barnabas.wire.messages.snapshot_header_record import SnapshotHeaderRecord

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"
DAMAGED_SUFFIX = ".damaged"
"""A snapshot that was set aside; operators may remove it."""
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class CorruptSnapshotError(ValueError):
    """A snapshot whose bytes are damaged or incomplete."""


def file_name(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def part_name(snapshot: OffsetAndEpoch, origin: str = "") -> str:
    """While it is written, or comes from `origin`: one of the same id may be under way from elsewhere."""
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}{origin}{PART_SUFFIX}"


def id_of(name: str) -> OffsetAndEpoch | None:
    """The id in a file's name; None where it is no whole snapshot's."""
    match = _NAME.fullmatch(name)
    return OffsetAndEpoch(int(match[1]), int(match[2])) if match else None


def snapshots_in(disk: Disk, directory: str) -> list[OffsetAndEpoch]:
    """Ids of the whole snapshots there, ascending."""
    found = (id_of(name) for name in disk.list_dir(directory))
    return sorted(snapshot for snapshot in found if snapshot is not None)


def continued_by_log(start: int, snapshots: Iterable[OffsetAndEpoch]) -> OffsetAndEpoch | None:
    """The snapshot that a log continues whose first segment begins at `start`: the oldest that does not end
    before. The log mostly begins within that segment, where this snapshot ends, because segments go as a
    whole. None where the log has everything, or no snapshot fits."""
    return min((known for known in snapshots if known.offset >= start > 0), default=None)


def remove_leftovers(disk: Disk, directory: str) -> None:
    """Files of snapshots that never became whole, or were being deleted."""
    for name in disk.list_dir(directory):
        if name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
            disk.remove(f"{directory}/{name}")


class SnapshotWriter:
    """Writes one snapshot piece by piece. Nothing is durable, and no snapshot there, before the work
    of `freeze_job` is done."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot: OffsetAndEpoch,
        last_contained_timestamp: int,
        controls: Sequence[ControlRecord],
        wall_ms: int,
    ) -> None:
        self.id = snapshot
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{part_name(snapshot)}"
        self._file = disk.open(self._path, create=True)
        self._offset = 0
        header = SnapshotHeaderRecord(
            version=0, last_contained_log_timestamp=last_contained_timestamp
        )
        try:
            self._file.truncate(0)
            self._add_control([(ControlType.SNAPSHOT_HEADER, header), *controls], wall_ms)
        except OSError:
            with suppress(OSError):
                self.abandon()
            raise

    @property
    def size(self) -> int:
        return self._file.size()

    def add(self, values: Sequence[Buffer], wall_ms: int) -> None:
        """One batch of values, which must not be empty."""
        self._file.append([data_batch(values, self._offset, self.id.epoch, wall_ms)])
        self._offset += len(values)

    def _add_control(self, controls: list[ControlRecord], wall_ms: int) -> None:
        self._file.append([control_batch(controls, self._offset, self.id.epoch, wall_ms)])
        self._offset += len(controls)

    def freeze_job(self, wall_ms: int) -> Callable[[], None]:
        """Write the footer; the blocking work that makes the snapshot durable and gives it its name."""
        self._add_control([(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))], wall_ms)
        return freeze_job(self._disk, self._directory, self.id, self._file, self._path)

    def abandon(self) -> None:
        self._file.close()
        self._disk.remove(self._path)


def freeze_job(
    disk: Disk, directory: str, snapshot: OffsetAndEpoch, file: File, path: str
) -> Callable[[], None]:
    """Blocking work that syncs a complete part at `path` and renames it to what it is."""

    def job() -> None:
        try:
            file.sync()
        finally:
            file.close()
        disk.rename(path, f"{directory}/{file_name(snapshot)}")
        disk.sync_dir(directory)

    return job


class SnapshotFile:
    """A `SnapshotReader` over a file with the bytes of a snapshot."""

    def __init__(
        self, disk: Disk, path: str, snapshot: OffsetAndEpoch, bounds: RaftBounds = RaftBounds()
    ) -> None:
        """Reads the first batch. Raises :class:`CorruptSnapshotError`, ``OSError``."""
        self._disk = disk
        self._path = path
        self._bounds = bounds
        self._id = snapshot
        first = next(self._batches(), None)
        self.controls: tuple[ControlRecord, ...] = ()
        if first is not None and first[0]:
            self.controls = tuple(control_records(first[1]))
        header = self.controls[0][1] if self.controls else None
        if not isinstance(header, SnapshotHeaderRecord):
            raise CorruptSnapshotError(f"{path} has no snapshot header")
        self._timestamp = header.last_contained_log_timestamp

    @property
    def id(self) -> OffsetAndEpoch:
        return self._id

    @property
    def last_contained_timestamp(self) -> int:
        return self._timestamp

    def values(self) -> Iterator[Sequence[Buffer]]:
        """In order, some at a time. Raises :class:`CorruptSnapshotError` where the file is damaged or has
        no end."""
        footer = False
        for is_control, batch in self._batches():
            if footer:
                raise CorruptSnapshotError(f"{self._path} continues behind its footer")
            if is_control:
                kinds = [kind for kind, _ in control_records(batch)]
                footer = ControlType.SNAPSHOT_FOOTER in kinds
            else:
                yield from slices_of_values(batch, self._bounds.snapshot_values_max)
        if not footer:
            raise CorruptSnapshotError(f"{self._path} has no snapshot footer")

    def check(self) -> None:
        """Whether all batches are there and what was written; a tenth of a second for 100 MB. Raises
        :class:`CorruptSnapshotError`."""
        footer = False
        for is_control, batch in self._batches():
            footer = is_control and ControlType.SNAPSHOT_FOOTER in dict(control_records(batch))
        if not footer:
            raise CorruptSnapshotError(f"{self._path} has no snapshot footer")

    def verify(self) -> None:
        """Read everything. Raises :class:`CorruptSnapshotError`."""
        for _ in self.values():
            pass

    def _batches(self) -> Iterator[tuple[bool, memoryview]]:
        """(whether it is a control batch, its bytes) for each, checked by CRC."""
        file = self._disk.open(self._path)
        try:
            read_bytes = self._bounds.snapshot_read_bytes
            position, size, want = 0, file.size(), read_bytes
            while position < size:
                data = memoryview(file.read_at(position, want))
                end = 0
                for run in iter_runs(data):
                    end = run.position + run.size
                    yield run.is_control, data[run.position : end]
                if end == 0 and position + want >= size:
                    raise CorruptSnapshotError(f"{self._path} ends inside a batch")
                want = read_bytes if end else want * 4
                position += end
        except CorruptBatchError as error:
            raise CorruptSnapshotError(f"{self._path}: {error}") from error
        finally:
            file.close()

    def __repr__(self) -> str:
        return f"SnapshotFile({self._path})"


def check_file(disk: Disk, directory: str, snapshot: OffsetAndEpoch) -> None:
    """Whether the snapshot's file is whole. Raises :class:`CorruptSnapshotError`, ``OSError``."""
    SnapshotFile(disk, f"{directory}/{file_name(snapshot)}", snapshot).check()


def write_checkpoint(
    values: Sequence[Buffer], wall_ms: int, controls: Sequence[ControlRecord] = ()
) -> bytes:
    """A small snapshot as one byte string: ``bootstrap.checkpoint`` and the first snapshot of a dynamic
    quorum. It is as old as it is, so that retention leaves it the log behind it as long as any other."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=wall_ms)
    first: list[ControlRecord] = [(ControlType.SNAPSHOT_HEADER, header), *controls]
    parts = [control_batch(first, 0, 0, wall_ms)]
    if values:
        parts.append(data_batch(values, len(first), 0, wall_ms))
    footer: list[ControlRecord] = [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))]
    parts.append(control_batch(footer, len(first) + len(values), 0, wall_ms))
    return b"".join(parts)


def read_checkpoint(data: Buffer) -> list[memoryview]:
    """The record values in such a byte string. Raises :class:`CorruptSnapshotError`."""
    view = memoryview(data)
    values: list[memoryview] = []
    end = 0
    try:
        for run in iter_runs(view):
            end = run.position + run.size
            if not run.is_control:
                values += batch_values(view[run.position : end])
    except CorruptBatchError as error:
        raise CorruptSnapshotError(str(error)) from error
    if end != len(view):
        raise CorruptSnapshotError(f"{len(view) - end} bytes are no whole batch")
    return values
