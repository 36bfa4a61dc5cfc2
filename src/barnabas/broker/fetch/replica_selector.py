"""Chooses the replica that a consumer reads from, by ``replica.selector.class`` (KIP-392).

A leader asks the selector for each partition that a consumer with a ``client.rack`` fetches. Where another
replica is preferred, the answer names it and carries no records; the consumer then fetches from there. A
replica qualifies while it is in the ISR, its broker is alive on the consumer's listener, and its log has the
offset that is fetched.

Source: Kafka's ReplicaSelector, RackAwareReplicaSelector and ReplicaManager.findPreferredReadReplica.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.broker.cluster_view import ClusterView
from barnabas.broker.partitions.partition import Partition
from barnabas.metadata.image.image import MetadataImage

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NO_REPLICA = -1
"""The consumer reads from the leader."""


class ReplicaView(NamedTuple):
    """A follower that a consumer may read from."""

    log_end_offset: int
    last_caught_up_ms: float
    broker: int


class RackAwareReplicaSelector:
    """Prefers a replica in the consumer's rack. The leader is preferred if it is in that rack, or
    if no replica is."""

    def __init__(self, image: MetadataImage, node_id: int) -> None:
        self._image = image
        self._node_id = node_id

    def preferred(self, partition: Partition, rack: str, listener: str, offset: int) -> int:
        """The broker to read `offset` of `partition` from; `NO_REPLICA` for this broker, and if it
        does not lead the partition."""
        if partition.leader is None or self._rack(self._node_id) == rack:
            return NO_REPLICA
        best = max(self._candidates(partition, rack, listener, offset), default=None)
        return NO_REPLICA if best is None else best.broker

    def _candidates(
        self, partition: Partition, rack: str, listener: str, offset: int
    ) -> Iterator[ReplicaView]:
        leader = partition.leader
        assert leader is not None
        view = ClusterView(self._image, listener)
        for broker in leader.isr:
            follower = leader.followers.get(broker)
            if follower is None or self._rack(broker) != rack or view.endpoint(broker) is None:
                continue
            if follower.log_start_offset <= offset <= follower.log_end_offset:
                yield ReplicaView(follower.log_end_offset, follower.last_caught_up_ms, broker)

    def _rack(self, broker: int) -> str | None:
        known = self._image.brokers.get(broker)
        return None if known is None else known.rack


def replica_selector(
    class_name: str | None, image: MetadataImage, node_id: int
) -> RackAwareReplicaSelector | None:
    """The selector of ``replica.selector.class``; None if consumers read from leaders (the default,
    and Kafka's LeaderSelector)."""
    return RackAwareReplicaSelector(image, node_id) if class_name == RACK_AWARE_SELECTOR else None
