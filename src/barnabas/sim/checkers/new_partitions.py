"""The rule for new partitions: on brokers that are registered and not wholly cordoned, no two replicas on
one; with a leader in the ISR. And a topic that was only to be validated never comes to be.

(No client of a seed assigns the replicas of a new partition by hand.)
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.controller.migration_state import ZkMigrationState
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.sim.checkers.metadata_records import RecordRule
from barnabas.sim.history import History, Violation
from barnabas.wire.schema import Message


class NewPartitions(RecordRule):
    KINDS = (TopicRecord, PartitionRecord)

    def __init__(
        self, history: History, is_copied: Callable[[bytes, int], bool] = lambda topic, index: False
    ) -> None:
        """`is_copied`: whether the log begins with this partition, which the quorum has not made."""
        self._history = history
        self._is_copied = is_copied

    def on_record(self, image: MetadataImage, offset: int, record: Message) -> None:
        if isinstance(record, TopicRecord):
            if record.name in self._history.tried:
                raise Violation(f"topic {record.name} was only to be validated, and it was made")
            return
        assert isinstance(record, PartitionRecord)
        if image.zk_migration_state == ZkMigrationState.PRE_MIGRATION:
            return  # a copy of what a cluster on ZooKeeper has
        if self._is_copied(record.topic_id, record.partition_id):
            return
        topic = image.topics_by_id.get(record.topic_id)
        where = f"{topic.name if topic else '?'}-{record.partition_id} at metadata offset {offset}"
        if len(set(record.replicas)) < len(record.replicas):
            raise Violation(f"{where}: two replicas on one broker: {record.replicas}")
        if topic is not None and topic.has(record.partition_id):
            return  # not new: it continues in a later epoch of a recovered quorum
        if record.leader not in record.isr or not set(record.isr) <= set(record.replicas):
            raise Violation(f"{where}: made with leader {record.leader}, ISR {record.isr}")
        for broker in record.replicas:
            known = image.brokers.get(broker)
            if known is None:
                raise Violation(f"{where}: placed on broker {broker}, which is not registered")
            if known.cordoned and set(known.directories) <= set(known.cordoned):
                raise Violation(f"{where}: placed on broker {broker}, which is cordoned")
