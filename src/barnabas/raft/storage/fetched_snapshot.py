"""Stores the snapshot that is being fetched from the leader, chunk by chunk."""

from __future__ import annotations

from barnabas.limits import RaftBounds
from barnabas.ports import Disk, File
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.snapshot_files import (
    CorruptSnapshotError,
    SnapshotFile,
    freeze_job,
    part_name,
)
from barnabas.types import Buffer


class FetchedSnapshot:
    """The file of one fetched snapshot; a new snapshot replaces an unfinished one. Its name differs from that
    of a snapshot which this replica takes itself, possibly with the same id."""

    def __init__(self, disk: Disk, directory: str, bounds: RaftBounds = RaftBounds()) -> None:
        self._disk = disk
        self._bounds = bounds
        self._directory = directory
        self._id: OffsetAndEpoch | None = None
        self._file: File | None = None

    def store(self, snapshot: OffsetAndEpoch, position: int, data: Buffer) -> None:
        """Store a chunk. `position` 0 starts the file again. Raises ``OSError``."""
        if position == 0:
            self.abandon()
            self._id = snapshot
            self._file = self._disk.open(self._path(snapshot), create=True)
            self._file.truncate(0)
        assert self._file is not None and self._id == snapshot
        if len(data):
            self._file.append([data])

    def finish(self, snapshot: OffsetAndEpoch) -> str:
        """Verify the snapshot and make it durable. Returns why it is corrupt, or an empty string. Blocks.
        Raises ``OSError``."""
        file, self._file, self._id = self._file, None, None
        assert file is not None
        try:
            SnapshotFile(self._disk, self._path(snapshot), snapshot, self._bounds).verify()
        except CorruptSnapshotError as error:
            file.close()
            self._disk.remove(self._path(snapshot))
            return str(error)
        except OSError:
            file.close()
            raise
        freeze_job(self._disk, self._directory, snapshot, file, self._path(snapshot))()
        return ""

    def abandon(self) -> None:
        """Delete an unfinished snapshot."""
        if self._file is not None and self._id is not None:
            self._file.close()
            self._disk.remove(self._path(self._id))
        self._file = self._id = None

    def _path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self._directory}/{part_name(snapshot, '-fetched')}"
