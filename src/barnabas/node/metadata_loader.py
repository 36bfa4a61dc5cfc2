"""Applies the committed metadata records of the quorum to this node's controller and broker.

:class:`MetadataLoader` is the state machine that the quorum's replica drives. It passes committed batches to
the controller (where this node is one), applies them to the broker's image, and reports the changes to
the broker once per call. The node's snapshots come from the controller; a node that is only a broker makes
them from its image.

Large inputs take several turns of the event loop. A snapshot fills new images, which replace the old ones
when they are complete. A large commit is decoded in slices before any of it is applied. So readers see all
of a batch or nothing of it.

Source: Kafka's ``MetadataLoader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.metadata.image.bulk_partition_records import Replayable
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.snapshot import snapshot_values
from barnabas.metadata.image.topic import Topic
from barnabas.ports import Ports
from barnabas.raft.state_machine import CommittedBatch, SnapshotReader
from barnabas.types import Buffer
from barnabas.wire.codec import MalformedError

OnMetadata = Callable[[MetadataImage, ImageChanges], None]
OnLeader = Callable[[int, int], None]

STAGE_STEP = 50
"""Values of a snapshot that are decoded between two checks of the slice's size."""
RECORD_WEIGHT = 10
"""Cost of a snapshot's record that is not a new partition, where a new partition costs 1."""


class MetadataLoader:
    """The committed image and its readers."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._bounds = ports.bounds.loader
        self.image = MetadataImage()
        self.controller: QuorumController | None = None
        self.on_metadata: OnMetadata | None = None
        self.on_leader: OnLeader | None = None
        self.on_configured: Callable[[MetadataImage], None] | None = None
        """Gets the controller's image when a configuration in it has changed: for a node that is only a
        controller."""
        self._config_version = -1

    def on_commit(self, batches: Sequence[CommittedBatch]) -> Iterator[None] | None:
        """Apply committed batches. Returns the remaining work, a step per turn, where they are large; else
        None."""
        work = self._or_halt(self._commit(batches))
        if sum(len(batch.values) for batch in batches) > self._bounds.applied_inline_max:
            return work
        for _ in work:
            pass
        return None

    def _commit(self, batches: Sequence[CommittedBatch]) -> Iterator[None]:
        """Decode all records once, for both images, and then apply them."""
        controller, image, most = self.controller, self.image, self._bounds.slice_max
        staged: list[list[Replayable]] = []
        if self.on_metadata is not None or (
            controller is not None and controller.image.offset < batches[-1].last_offset
        ):
            for batch in batches:
                staged.append([])
                for start in range(0, len(batch.values), most):
                    image.stage(batch.values[start : start + most], staged[-1])
                    yield
        if controller is not None:
            controller.on_commit(batches, staged)
            self._report_configs(controller.image)
            yield
        if self.on_metadata is not None:
            self._replay(batches, staged)
            self.on_metadata(image, image.take_changes())

    def _replay(
        self, batches: Sequence[CommittedBatch], staged: Sequence[Sequence[Replayable]]
    ) -> None:
        """Replay the batches that the image does not have yet. After a fault in a reader of the image, the
        quorum's replica passes all batches again."""
        image = self.image
        for batch, records in zip(batches, staged, strict=True):
            if batch.last_offset > image.offset:
                image.replay_batch(records, batch.last_offset, batch.epoch, batch.append_timestamp)

    def _report_configs(self, image: MetadataImage) -> None:
        if self.on_configured is not None and image.config_version != self._config_version:
            self._config_version = image.config_version
            self.on_configured(image)

    def on_snapshot(self, snapshot: SnapshotReader) -> Iterator[None]:
        """Replace the images by the content of `snapshot`, a step per turn of the loop."""
        if self.controller is not None:
            self.controller.on_snapshot_coming()
        return self._or_halt(self._load(snapshot))

    def _load(self, snapshot: SnapshotReader) -> Iterator[None]:
        followers = [self.controller is not None, self.on_metadata is not None]
        filled = [MetadataImage(track_changes=False) for follows in followers if follows]
        end, epoch = snapshot.id
        position = end - 1, epoch, snapshot.last_contained_timestamp
        since = 0
        for values in snapshot.values():
            staged: list[Replayable] = []
            for start in range(0, len(values), STAGE_STEP):
                if since >= self._bounds.slice_max:
                    since = 0
                    yield
                before, step = len(staged), values[start : start + STAGE_STEP]
                filled[0].stage(step, staged)
                since += len(step) + RECORD_WEIGHT * (len(staged) - before)
            for image in filled:
                image.replay_batch(staged, *position)
        for image in filled:
            image.moved_to(*position)
        replaced: list[list[Topic | None]] = []
        if self.controller is not None:
            replaced.append(self.controller.image.slots)
            self.controller.on_snapshot(filled.pop(0))
            self._report_configs(self.controller.image)
        if self.on_metadata is not None:
            replaced.append(self.image.slots)
            self.image.become(filled.pop(0))
            self.on_metadata(self.image, self.image.take_changes())
        for slots in replaced:  # to release many topics at once would block the loop
            while slots:
                del slots[-self._bounds.dropped_per_turn :]
                if slots:
                    yield

    def _or_halt(self, work: Iterator[None]) -> Iterator[None]:
        try:
            yield from work
        except MalformedError as error:
            self._halt(error)

    def _halt(self, error: MalformedError) -> None:
        self.ports.halt(f"a committed metadata record cannot be read: {error}")

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        if self.controller is not None:
            self.controller.on_leader_change(leader_id, epoch)
        if self.on_leader is not None:
            self.on_leader(leader_id, epoch)

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        """The encoded records of a snapshot of the committed image, in slices; None where none can be
        made."""
        if self.controller is not None:
            return self.controller.snapshot()
        return snapshot_values(self.image)
