"""The first snapshot of a dynamic quorum: who votes before the log says so (KIP-853).

``storage format --standalone`` and ``--initial-controllers`` write it; ``--no-initial-controllers`` writes
none: that node waits to be added. A static quorum has none either.
"""

from __future__ import annotations

from barnabas.ports import Disk
from barnabas.raft.core.voters import VoterSet
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.raft.storage.snapshot_files import file_name, write_checkpoint
from barnabas.record.builder import ControlType
from barnabas.wire.messages.k_raft_version_record import KRaftVersionRecord

FIRST = OffsetAndEpoch(0, 0)
"""It holds no state: the voters and, if Kafka 4.4 formatted, records for the first leader to write."""


def first_snapshot_path(directory: str) -> str:
    """Its path below a metadata log directory."""
    return f"{directory}/{DIRECTORY}/{file_name(FIRST)}"


def write_first_snapshot(disk: Disk, directory: str, voters: VoterSet, wall_ms: int) -> None:
    """Make `voters` the first voter set of the quorum that begins in `directory`. Blocks.
    Raises ``OSError``."""
    disk.make_dirs(f"{directory}/{DIRECTORY}")
    controls = [
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, k_raft_version=1)),
        (ControlType.KRAFT_VOTERS, voters.to_record()),
    ]
    disk.write_atomic(first_snapshot_path(directory), write_checkpoint((), wall_ms, controls))
