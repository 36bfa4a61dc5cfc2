"""Bugs of the migration from ZooKeeper to a quorum, and of the way back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from barnabas.limits import ZookeeperBounds
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.sim.run import Plan
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER_EPOCH, MIGRATION
from barnabas.zookeeper.migration import readiness
from barnabas.zookeeper.migration.claim import MigrationLeadership
from barnabas.zookeeper.migration.dual_write import DualWriter, Writes
from barnabas.zookeeper.operations import CheckVersion, Multi, Operation, SetData
from tests.sim.mutants.planting import Mutant, Patch

MIGRATING = Plan(migration=True)


def configs_not_written() -> list[Patch]:
    def none(self: DualWriter, image: MetadataImage, changes: ImageChanges) -> Iterator[Message]:
        return iter(())

    return [(DualWriter, "_config_records", none)]


def takeover_waits_for_no_broker() -> list[Patch]:
    def nothing(znodes: Mapping[str, Any], image: MetadataImage) -> Iterator[str]:
        return iter(())

    return [(readiness, "missing", nothing)]


def topics_of_log_alone() -> list[Patch]:
    """A catch-up, after a takeover or before the way back, leaves out topics that the znodes do not have."""
    honest = DualWriter.everything

    def without_new(self: DualWriter, image: MetadataImage) -> Writes:
        known = self.layout.topic_names
        missing = [id for id in image.topics_by_id if id not in known]
        of = self.of

        def partly(image: MetadataImage, changes: ImageChanges) -> Writes:
            for topic_id in missing:
                changes.topics_created.pop(topic_id, None)
            return of(image, changes)

        self.of = partly  # type: ignore[method-assign]
        try:
            return honest(self, image)
        finally:
            del self.of

    return [(DualWriter, "everything", without_new)]


def partition_epoch_not_carried() -> list[Patch]:
    honest = DualWriter._as_often

    def once(self: DualWriter, operation: Operation | None, versions: Any) -> Iterable[Operation]:
        return list(honest(self, operation, versions))[:1]

    return [(DualWriter, "_as_often", once)]


def claim_not_checked() -> list[Patch]:
    honest = MigrationLeadership.transactions

    def unconditional(
        self: MigrationLeadership,
        operations: Sequence[Operation],
        metadata_offset: int,
        metadata_epoch: int,
        bounds: ZookeeperBounds,
    ) -> list[Multi]:
        any_epoch = CheckVersion(CONTROLLER_EPOCH, -1)
        found = []
        for one in honest(self, operations, metadata_offset, metadata_epoch, bounds):
            mark = one.operations[1]
            assert isinstance(mark, SetData)
            found.append(Multi((any_epoch, SetData(MIGRATION, mark.data, -1), *one.operations[2:])))
        return found

    return [(MigrationLeadership, "transactions", unconditional)]


MUTANTS = (
    Mutant("migration-configs-unwritten", "dual write leaves configurations out", configs_not_written,
           MIGRATING),
    Mutant("migration-waits-for-none", "the takeover does not wait until all brokers have registered",
           takeover_waits_for_no_broker, MIGRATING),
    Mutant("migration-topic-not-taken-back", "topics that the log alone has are not written by a catch-up",
           topics_of_log_alone, MIGRATING),
    Mutant("migration-partition-epoch-lost", "a state znode's version is not the partition epoch",
           partition_epoch_not_carried, MIGRATING),
    Mutant("migration-claim-unchecked", "the quorum's writes are conditional on no claim", claim_not_checked,
           MIGRATING),
)  # fmt: skip
