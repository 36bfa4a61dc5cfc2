"""The rule that says who may be in the ISR of a partition that this broker leads.

A follower may be a member if its broker is unfenced, is not shutting down, is the incarnation that
fetched, and has a working log directory. The high watermark would wait for any other follower. The
controller decides each change of an ISR; this broker asks for it.

Source: ``Partition.isReplicaIsrEligible`` of Kafka.
"""

from __future__ import annotations

from barnabas.broker.partitions.alter_partition_sender import AlterPartitionSender
from barnabas.broker.partitions.partition import Partition
from barnabas.metadata.image.image import MetadataImage


class IsrRules:
    """Judges members of ISRs by the image. `lag_ms_max` bounds how far a member may be behind."""

    def __init__(
        self, image: MetadataImage, lag_ms_max: float, sender: AlterPartitionSender
    ) -> None:
        self._image = image
        self.lag_ms_max = lag_ms_max
        self.propose = sender.submit

    def is_eligible(self, partition: Partition, broker: int, broker_epoch: int) -> bool:
        """Whether `broker` may be a member. If this broker does not know the epoch (-1), the
        controller compares it."""
        known = self._image.brokers.get(broker)
        if known is None or not known.active:
            return False
        if broker_epoch != -1 and known.epoch not in (-1, broker_epoch):
            return False
        topic = self._image.topics_by_id.get(partition.topic_id)
        if topic is None or broker not in topic.replicas[partition.index]:
            return False
        position = topic.replicas[partition.index].index(broker)
        return known.has_directory(topic.directories[partition.index][position])
