"""Invariant 4, snapshot = log: a snapshot on disk says what the committed metadata log says up to its offset,
replayed from its first record."""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage
from barnabas.raft.core.batches import batch_values
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.raft.storage.snapshot_files import SnapshotFile, file_name, snapshots_in
from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.images import digest
from barnabas.sim.checkers.quorum_logs import QuorumLogs, QuorumRule
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class SnapshotsSayWhatTheLogSays(QuorumRule):
    def __init__(self) -> None:
        self._committed: list[tuple[int, list[bytes]]] = []
        """(offset behind, values) of each committed batch."""

    def on_committed(self, logs: QuorumLogs, cluster: SimCluster, link: Link) -> None:
        values: list[bytes] = []
        if link.header is not None and not link.header.is_control:
            values = [bytes(value) for value in batch_values(memoryview(link.data))]
        self._committed.append((link.end, values))

    def at_end(self, cluster: SimCluster) -> None:
        by_offset: dict[int, list[tuple[SimNode, bytes]]] = {}
        for node in cluster.up():
            for offset, found in _snapshots(node):
                by_offset.setdefault(offset, []).append((node, found))
        image = MetadataImage(track_changes=False)
        for end, values in self._committed:
            if values:
                image.replay_values(values, end - len(values), 0, 0)
            for node, found in by_offset.pop(end, ()):
                if image.transaction is None and digest(image) != found:
                    raise Violation(
                        f"node {node.id}: its snapshot at offset {end} is not what the log says there"
                    )


def _snapshots(node: SimNode) -> list[tuple[int, bytes]]:
    """(offset, digest of the image) of the newest snapshot on disk, if there is one."""
    assert node.node is not None and node.process is not None
    directory = f"{node.config().metadata_log_dir}/{DIRECTORY}"
    found, disk = [], node.process.disk
    for snapshot in snapshots_in(disk, directory)[-1:]:
        image = MetadataImage(track_changes=False)
        reader = SnapshotFile(disk, f"{directory}/{file_name(snapshot)}", snapshot)
        for values in reader.values():
            image.replay_values(values, snapshot.offset, 0, 0)
        found.append((snapshot.offset, digest(image)))
    return found
