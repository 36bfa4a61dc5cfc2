"""An index of the replicas on this broker, by topic id and by name.

It is constructed before the parts of the broker that look replicas up (fetches, repairs); the replica table
is constructed from those parts. Only :class:`~barnabas.broker.replicas.replica_table.ReplicaTable` adds and
removes.

Source: ``allPartitions`` of Kafka's ReplicaManager.
"""

from __future__ import annotations

from barnabas.broker.partitions.partition import Partition
from barnabas.metadata.image.image import MetadataImage
from barnabas.replication.sessions import PartitionKey
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode


class ReplicaIndex:
    """One replica per partition, by id and by name."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.by_id: dict[tuple[Uuid, int], Partition] = {}
        self.by_name: dict[tuple[str, int], Partition] = {}

    def add(self, partition: Partition) -> None:
        self.by_id[partition.topic_id, partition.index] = partition
        self.by_name[partition.topic, partition.index] = partition

    def remove(self, partition: Partition) -> None:
        del self.by_id[partition.topic_id, partition.index]
        self.by_name.pop((partition.topic, partition.index), None)

    def find(self, key: PartitionKey) -> tuple[Partition | None, ErrorCode]:
        """The replica for (topic id or name, index); or None and the error for the client."""
        topic_key, index = key
        if isinstance(topic_key, str):
            found = self.by_name.get(key)
            topic = self.image.topics_by_name.get(topic_key)
            # Another topic has this name by now: a write to the old topic would be lost with it.
            if found is not None and (topic is None or topic.id == found.topic_id):
                return found, ErrorCode.NONE
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            found = self.by_id.get(key)
            if found is not None:
                return found, ErrorCode.NONE
            topic = self.image.topics_by_id.get(topic_key)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is None:
            return None, unknown
        if topic.has(index):
            return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def validate(self) -> None:
        """Each replica is known by id and by name. Raises AssertionError."""
        for (topic_id, index), partition in self.by_id.items():
            assert (partition.topic_id, partition.index) == (topic_id, index), repr(partition)
            partition.validate()
        for (topic, index), partition in self.by_name.items():
            assert self.by_id[partition.topic_id, index] is partition, repr(partition)
            assert partition.topic == topic, repr(partition)
