"""The metadata log of a controller that does not run, read from its disk as the way back reads it."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.metadata.image.image import MetadataImage
from barnabas.raft.core.batches import batch_values
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.raft.storage.snapshot_files import continued_by_log, id_of, read_checkpoint
from barnabas.record.batch import CorruptBatchError, iterate
from barnabas.sim.migration.cluster import MigratingSimNode

Length = tuple[int, int]
"""(leader epoch, offset) of the last batch."""
FOLDER = f"/data/{DIRECTORY}"


def longest(controllers: Sequence[MigratingSimNode]) -> MetadataImage:
    """The image of the longest log of them; an empty image where none has a log."""
    found = [_read(node) for node in controllers]
    return max(found, key=lambda one: one[0])[1]


def _read(node: MigratingSimNode) -> tuple[Length, MetadataImage]:
    """The last snapshot that the log continues, then all whole batches of the log."""
    disk, image, length = node.machine.disk, MetadataImage(track_changes=False), (-1, -1)
    names = sorted(disk.names.below(FOLDER))
    segments = [name for name in names if name.endswith(".log")]
    if not segments:
        return length, image
    start = int(segments[0].rpartition("/")[2].removesuffix(".log"))
    snapshots = {known: name for name in names if (known := id_of(name.rpartition("/")[2]))}
    at = continued_by_log(start, snapshots)
    assert at is not None or not start, f"{FOLDER} begins at {start}, and no snapshot is there"
    if at is not None:
        length = (at.epoch, at.offset - 1)
        image.replay_values(read_checkpoint(disk.content(snapshots[at])), at.offset - 1, at.epoch)
    for path in segments:
        try:
            for batch in iterate(disk.content(path), crc=True):
                header = batch.header
                if header.next_offset - 1 <= image.offset:
                    continue
                length = (header.leader_epoch, header.next_offset - 1)
                if header.is_control:
                    image.moved_to(length[1], header.leader_epoch)
                else:
                    values = batch_values(batch.data)
                    image.replay_values(values, length[1], header.leader_epoch)
        except CorruptBatchError:
            break  # the batch that the kill cut off
    return length, image
