"""The files of one replica as its machine decides on them: the log, and the snapshot that is being fetched.

The log ends where the machine decided that it ends, or it is damaged: what fetches and votes say of it would
not be true. A sync that began before the log was cut vouches for nothing behind the cut.
"""

from __future__ import annotations

from errno import EIO

from barnabas.ports import Ports
from barnabas.raft.storage.fetched_snapshot import FetchedSnapshot
from barnabas.raft.storage.recovery_point import RecoveryPoint
from barnabas.raft.storage.replica_log import RaftLog
from barnabas.types import Buffer


class ReplicaStorage:
    """The log of one replica in `directory`, and what is beside it."""

    def __init__(self, ports: Ports, directory: str, log: RaftLog) -> None:
        """Blocks on the disk."""
        self.directory = directory
        self.log = log
        self.fetched = FetchedSnapshot(ports.disk, directory, ports.bounds.raft)
        self.recovery_point = RecoveryPoint(ports, directory)
        self.cuts = 0
        """How often the log was cut, or began elsewhere."""

    def append(self, records: Buffer, base_offset: int) -> None:
        """Append `records`, which the machine has placed at `base_offset`. Raises ``OSError``,
        ``CorruptLogError``."""
        self._check_end(base_offset)
        self.log.append(records)

    def truncate_to(self, offset: int) -> None:
        """Raises ``OSError``, ``CorruptLogError``."""
        self.cuts += 1
        self.log.truncate_to(offset)
        self._check_end(offset)
        self.recovery_point.cut(offset)

    def restart_at(self, offset: int) -> None:
        """Begin the log again behind a snapshot. Raises ``OSError``."""
        self.cuts += 1
        self.log.restart_at(offset)

    def _check_end(self, offset: int) -> None:
        end = self.log.end_offset
        if end != offset:
            why = f"the metadata log ends at {end}, not at {offset}: it is damaged"
            raise OSError(EIO, why, self.directory)

    def __repr__(self) -> str:
        return f"ReplicaStorage({self.directory}, to {self.log.end_offset}, cut {self.cuts} times)"
