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
from typing import Protocol, TypeAlias

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

OnConfigured: TypeAlias = Callable[[MetadataImage], None]

STAGE_STEP = 50
"""Values of a snapshot that are decoded between two checks of the slice's size."""
RECORD_WEIGHT = 10
"""Cost of a snapshot's record that is not a new partition, where a new partition costs 1."""


class MetadataFollower(Protocol):
    """A reader of the committed image: the broker of this node, or a migration beside its controller."""

    def on_metadata(self, image: MetadataImage, changes: ImageChanges, /) -> None:
        """The image moved by committed records."""

    def on_controller_change(self) -> None:
        """Another node leads the quorum, or none is known to."""


class MetadataLoader:
    """The committed image and its readers. The node adds them before its quorum starts: its replica makes
    the image, whose readers need the replica."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._bounds = ports.bounds.loader
        self.image = MetadataImage()
        self.controller: QuorumController | None = None
        self._follower: MetadataFollower | None = None
        self._on_configured: OnConfigured | None = None
        self._config_version = -1

    def add_controller(
        self, controller: QuorumController, on_configured: OnConfigured | None = None
    ) -> None:
        """`on_configured` gets the controller's image when a configuration in it has changed: for a node that
        is only a controller."""
        self.controller, self._on_configured = controller, on_configured

    def add_follower(self, follower: MetadataFollower) -> None:
        """`follower` reads the image, which is kept only for it."""
        assert self._follower is None, "the image has one reader"
        self._follower = follower

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
        controller, image, follower = self.controller, self.image, self._follower
        most = self._bounds.slice_max
        staged: list[list[Replayable]] = []
        if follower is not None or (
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
        if follower is not None:
            self._replay(batches, staged)
            follower.on_metadata(image, image.take_changes())

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
        if self._on_configured is not None and image.config_version != self._config_version:
            self._config_version = image.config_version
            self._on_configured(image)

    def on_snapshot(self, snapshot: SnapshotReader) -> Iterator[None]:
        """Replace the images by the content of `snapshot`, a step per turn of the loop."""
        if self.controller is not None:
            self.controller.on_snapshot_coming()
        return self._or_halt(self._load(snapshot))

    def _load(self, snapshot: SnapshotReader) -> Iterator[None]:
        follower = self._follower
        readers = [self.controller is not None, follower is not None]
        filled = [MetadataImage(track_changes=False) for reads in readers if reads]
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
        if follower is not None:
            replaced.append(self.image.slots)
            self.image.become(filled.pop(0))
            follower.on_metadata(self.image, self.image.take_changes())
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
        if self._follower is not None:
            self._follower.on_controller_change()

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        """The encoded records of a snapshot of the committed image, in slices; None where none can be
        made."""
        if self.controller is not None:
            return self.controller.snapshot()
        return snapshot_values(self.image)
