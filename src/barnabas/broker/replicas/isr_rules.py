"""The rule of who may be in the ISR of a partition that this broker leads.

A follower may where it is unfenced, does not shut down, is the incarnation that fetched, and has a log
directory that works: else the high watermark would wait for it. Changes are asked of the controller.

Source: ``Partition.isReplicaIsrEligible`` of Kafka.
"""

from __future__ import annotations

from barnabas.broker.partitions.alter_partition_sender import AlterPartitionSender
from barnabas.broker.partitions.partition import Partition
from barnabas.metadata.image.image import MetadataImage


class IsrRules:
    """Members of ISRs, by the image; `lag_ms_max` is how far behind one may be."""

    def __init__(
        self, image: MetadataImage, lag_ms_max: float, sender: AlterPartitionSender
    ) -> None:
        self._image = image
        self.lag_ms_max = lag_ms_max
        self.propose = sender.submit

    def is_eligible(self, partition: Partition, broker: int, broker_epoch: int) -> bool:
        """Whether `broker` may be a member. An epoch of -1 is not known here: then the controller
        compares."""
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
