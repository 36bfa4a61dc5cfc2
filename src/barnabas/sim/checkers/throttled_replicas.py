"""A throttle holds back only the replicas that it is for: those that the topic names, on a broker with a
rate, outside of the ISR. Every other replica replicates as if there were no throttle. (That the throttled
ones continue when it is lifted shows in the end, when every ISR must be whole.)

Listens to each broker's throttle from outside, where it reports a replica that waits. Whether that replica
may be throttled is computed here independently, from the metadata.
"""

from __future__ import annotations

from barnabas.broker.broker import Broker
from barnabas.broker.follower.replication_throttle import ReplicationThrottle
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
            _listen(cluster, broker)

    def finish(self, cluster: SimCluster) -> None:
        """Who waited was judged when it did."""


def _listen(cluster: SimCluster, broker: Broker) -> None:
    throttle = broker.throttle
    holds_back, waits = throttle.holds_back, throttle.waits

    def judged_as_leader(partition: Partition, follower: int, promised: int) -> bool:
        held = holds_back(partition, follower, promised)
        if held:
            _check_rate(broker, "leader", partition)
            # The leader's own list names it, whichever follower asks (KIP-73).
            _check_listed(broker, "leader", partition, broker.node_id)
            leader = partition.leader
            if leader is not None and follower in leader.isr:
                raise Violation(
                    f"{partition} on broker {broker.node_id}: holds back {follower}, which is in the"
                    f" ISR {leader.isr}"
                )
            cluster.world.totals["fetches held back"] += 1
        return held

    def judged_as_follower(partition: Partition) -> bool:
        held = waits(partition)
        if held:
            _check_rate(broker, "follower", partition)
            _check_listed(broker, "follower", partition, broker.node_id)
            topic = broker.image.topics_by_id[partition.topic_id]
            if broker.node_id in topic.isr[partition.index]:
                raise Violation(
                    f"{partition}: broker {broker.node_id} waits and is in the ISR"
                    f" {topic.isr[partition.index]}"
                )
            cluster.world.totals["fetches held back"] += 1
        return held

    _replace(throttle, judged_as_leader, judged_as_follower)


def _replace(throttle: ReplicationThrottle, holds_back: object, waits: object) -> None:
    for name, method in (("holds_back", holds_back), ("waits", waits)):
        setattr(throttle, name, method)


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
