"""The decisions about each partition, by whichever side: what its state znode said in some version, or what
the log of the quorum has committed in some partition epoch. A broker goes by nothing else.
"""

from __future__ import annotations

from barnabas.controller.migration_state import ZkMigrationState
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import PartitionState
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.zk_migration_state_record import ZkMigrationStateRecord
from barnabas.sim.checkers.metadata_records import RecordRule
from barnabas.sim.cluster import SimNode
from barnabas.sim.history import Violation
from barnabas.sim.migration.cluster import MigrationCluster
from barnabas.sim.zookeeper_mode.obedience import ImagesSayWhatIsWritten
from barnabas.sim.zookeeper_mode.znode_order import Row, ZnodesGoForward
from barnabas.types import Uuid
from barnabas.wire.schema import Message

Key = tuple[bytes, int, int]
"""Topic id, partition, partition epoch: the version of the state znode, or as the log says."""


class DecidedRows(RecordRule):
    """The rows of both; a judge of the quorum's log feeds it, once for each record and change."""

    KINDS = (PartitionRecord,)

    def __init__(self, znodes: ZnodesGoForward) -> None:
        self.znodes = znodes
        self.committed: dict[Key, Row] = {}

    def on_record(self, image: MetadataImage, offset: int, record: Message) -> None:
        assert isinstance(record, PartitionRecord)
        key = bytes(record.topic_id), record.partition_id, record.partition_epoch
        self.committed[key] = (record.leader, record.leader_epoch, tuple(record.isr))

    def on_change(
        self,
        offset: int,
        before: PartitionState,
        after: PartitionState,
        record: PartitionChangeRecord,
    ) -> None:
        key = bytes(after.topic_id), after.partition, after.partition_epoch
        self.committed[key] = (after.leader, after.leader_epoch, tuple(after.isr))

    def of(self, topic: Uuid, partition: int, epoch: int) -> list[Row]:
        """None, one, or one of each side."""
        row = self.committed.get((topic, partition, epoch))
        return [*self.znodes.rows_of(topic, partition, epoch), *([] if row is None else [row])]


class ImagesSayWhatIsDecided(ImagesSayWhatIsWritten):
    """The images of brokers in ZooKeeper mode; that a broker under KRaft says what the log says is judged
    as in any quorum."""

    def __init__(self, rows: DecidedRows) -> None:
        super().__init__(rows.znodes)
        self._rows = rows

    def judge(self, node: SimNode, where: str, key: tuple[Uuid, int, int], shown: Row) -> None:
        if node.node is not None:
            return
        topic, partition, epoch = key
        rows = self._rows.of(topic, partition, epoch)
        if shown not in rows:
            raise Violation(
                f"{where}: leader, epoch and ISR {shown} in partition epoch {epoch}, for which"
                f" {rows} was decided"
            )


class TakeoversWaitForBrokers(RecordRule):
    """The rule that znodes are committed once every broker with replicas has registered with the quorum: one
    that has not would not learn who rules."""

    KINDS = (ZkMigrationStateRecord,)

    def __init__(self, cluster: MigrationCluster) -> None:
        self._cluster = cluster

    def on_record(self, image: MetadataImage, offset: int, record: Message) -> None:
        assert isinstance(record, ZkMigrationStateRecord)
        if record.zk_migration_state != ZkMigrationState.MIGRATION:
            return
        topics = self._cluster.written.image.topics_by_id.values()
        assigned = {broker for topic in topics for row in topic.replicas for broker in row}
        missing = sorted(assigned - image.brokers.keys())
        if missing:
            raise Violation(
                f"metadata offset {offset}: the znodes are copied, and brokers {missing} have not"
                " registered with the quorum"
            )
