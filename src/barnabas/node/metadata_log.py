"""What the quorum replicates, as this node sees it: one stream of committed records, several readers.

:class:`MetadataLog` is the state machine that the quorum's replica drives. It feeds the controller (where
this node is one) and the broker's image, and tells the broker what moved once per run of
batches. The controller's snapshot is the node's; a broker alone makes one from its image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barnabas.controller.runtime import ControllerRuntime
from barnabas.metadata.changes import Changes
from barnabas.metadata.image import MetadataImage
from barnabas.metadata.snapshot import snapshot_values
from barnabas.ports import Ports
from barnabas.raft.state_machine import CommittedBatch, SnapshotReader
from barnabas.types import Buffer
from barnabas.wire.codec import MalformedError

OnMetadata = Callable[[MetadataImage, Changes], None]
OnLeader = Callable[[int, int], None]


class MetadataLog:
    """The committed image and those who follow it."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.image = MetadataImage()
        self.controller: ControllerRuntime | None = None
        self.on_metadata: OnMetadata | None = None
        self.on_leader: OnLeader | None = None

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        try:
            if self.controller is not None:
                self.controller.on_commit(batches)
            if self.on_metadata is not None:
                image = self.image
                for batch in batches:
                    image.replay_values(
                        batch.values, batch.last_offset, batch.epoch, batch.append_timestamp
                    )
                self.on_metadata(image, image.take_changes())
        except MalformedError as error:
            self.ports.halt(f"a committed metadata record cannot be read: {error}")

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        if self.controller is not None:
            self.controller.on_snapshot(snapshot)
        if self.on_metadata is not None:
            image = self.image
            end, epoch = snapshot.id
            image.reset()
            for values in snapshot.values():
                image.replay_values(values, end - 1, epoch, snapshot.last_contained_timestamp)
            image.moved_to(end - 1, epoch, snapshot.last_contained_timestamp)
            self.on_metadata(image, image.take_changes())

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        if self.controller is not None:
            self.controller.on_leader_change(leader_id, epoch)
        if self.on_leader is not None:
            self.on_leader(leader_id, epoch)

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        if self.controller is not None:
            return self.controller.snapshot()
        return snapshot_values(self.image)
