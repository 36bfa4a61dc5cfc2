"""A throttle holds back only the replicas that it is for: those that the topic names, on a broker with a
rate, outside of the ISR. Every other replica replicates as if there were no throttle. (That the throttled
ones continue when it is lifted shows in the end, when every ISR must be whole.)

Observes each broker's throttle, which reports every replica that waits. Whether that replica
may be throttled is computed here independently, from the metadata.
"""

from __future__ import annotations

from barnabas.broker.broker import Broker
from barnabas.broker.partitions.partition import Partition
from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT, TOPIC, MetadataImage
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class OnlyThrottledReplicasWait(Checker):
    LOOKS_AT_IMAGE = True

    def __init__(self) -> None:
        self._heard: dict[int, Broker] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        broker = node.broker
        if broker is not None and self._heard.get(node.id) is not broker:
            self._heard[node.id] = broker
            broker.throttle.observe(_Judge(cluster, broker))

    def finish(self, cluster: SimCluster) -> None:
        """Who waited was judged when it did."""


class _Judge:
    """Judges the replicas that wait by one broker's throttle."""

    def __init__(self, cluster: SimCluster, broker: Broker) -> None:
        self._cluster = cluster
        self._broker = broker

    def on_held_back(self, partition: Partition, follower: int) -> None:
        broker, leader = self._broker, partition.leader
        _check_rate(broker, "leader", partition)
        # The leader's own list names it, whichever follower asks (KIP-73).
        _check_listed(broker, "leader", partition, broker.node_id)
        if leader is not None and follower in leader.isr:
            raise Violation(
                f"{partition} on broker {broker.node_id}: holds back {follower}, which is in the"
                f" ISR {leader.isr}"
            )
        self._cluster.world.totals["fetches held back"] += 1

    def on_wait(self, partition: Partition) -> None:
        broker = self._broker
        _check_rate(broker, "follower", partition)
        _check_listed(broker, "follower", partition, broker.node_id)
        topic = broker.image.topics_by_id[partition.topic_id]
        if broker.node_id in topic.isr[partition.index]:
            raise Violation(
                f"{partition}: broker {broker.node_id} waits and is in the ISR"
                f" {topic.isr[partition.index]}"
            )
        self._cluster.world.totals["fetches held back"] += 1


def _check_rate(broker: Broker, side: str, partition: Partition) -> None:
    image: MetadataImage = broker.image
    key = f"{side}.replication.throttled.rate"
    for name in (str(broker.node_id), CLUSTER_DEFAULT):
        if key in image.config(BROKER, name):
            return
    raise Violation(f"{partition} on broker {broker.node_id} is held back, and there is no {key}")


def _check_listed(broker: Broker, side: str, partition: Partition, replica: int) -> None:
    text = broker.image.config(TOPIC, partition.topic).get(
        f"{side}.replication.throttled.replicas", ""
    )
    listed = text.split(",")
    if "*" not in listed and f"{partition.index}:{replica}" not in listed:
        raise Violation(
            f"{partition} is held back on broker {broker.node_id}, whose throttled replicas are"
            f" {text!r}"
        )
