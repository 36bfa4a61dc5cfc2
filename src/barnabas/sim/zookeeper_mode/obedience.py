"""A broker obeys the newest controller that it knows, and knows only what was written: each row of its image
is what some version of the partition's state znode said, and no row goes back while it lives.
"""

from __future__ import annotations

from array import array

from barnabas.metadata.image.topic import Topic
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.sim.zookeeper_mode.cluster import ZookeeperSimNode
from barnabas.sim.zookeeper_mode.znode_order import Row, ZnodesGoForward
from barnabas.types import Uuid
from barnabas.zookeeper.broker.control_requests import ControlRequests

Epochs = tuple["array[int]", "array[int]"]
"""Leader epochs and partition epochs of one topic."""


class BrokersObeyTheNewest(Checker):
    """The controller epoch that a broker goes by never falls while it lives."""

    def __init__(self) -> None:
        self._orders: dict[int, tuple[ControlRequests, int]] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        orders = _orders_of(node)
        if orders is None:
            return
        before, epoch = self._orders.get(node.id, (orders, -1))
        if before is orders and orders.controller_epoch < epoch:
            raise Violation(
                f"node {node.id} obeys controller epoch {orders.controller_epoch} after {epoch}"
            )
        self._orders[node.id] = orders, orders.controller_epoch

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            self.check(cluster, node)


def _orders_of(node: SimNode) -> ControlRequests | None:
    inside = node.zookeeper_node if isinstance(node, ZookeeperSimNode) else None
    return None if inside is None or inside.broker is None else inside.control_requests


class NoDeposedControllerIsObeyed(BrokersObeyTheNewest):
    """Nor does it fall when the broker is started again: who was deposed before that does not reach it."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[int, int] = {}

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        super().check(cluster, node)
        orders = _orders_of(node)
        if orders is None or orders.controller_epoch < 0:
            return
        newest = self._newest.get(node.id, -1)
        if orders.controller_epoch < newest:
            raise Violation(
                f"node {node.id} has obeyed controller epoch {newest}, and after its start"
                f" {orders.controller_epoch} of controller {orders.controller_id}"
            )
        self._newest[node.id] = orders.controller_epoch


class ImagesSayWhatIsWritten(Checker):
    LOOKS_AT_IMAGE = True

    def __init__(self, znodes: ZnodesGoForward) -> None:
        self._znodes = znodes
        self._seen: dict[tuple[int, int, Uuid], Epochs] = {}
        """(node, its life, topic) → what it showed last."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        for topic_id, topic in node.image.topics_by_id.items():
            key = node.id, node.machine.starts, topic_id
            before = self._seen.get(key)
            shown = topic.leader_epoch, topic.partition_epoch
            if before == shown:
                continue
            self._seen[key] = topic.leader_epoch[:], topic.partition_epoch[:]
            for index, replicas in enumerate(topic.replicas):
                if replicas and node.id in replicas:
                    self._judge(node, topic, index)
                if before is not None and index < len(before[0]):
                    was, now = (
                        (before[0][index], before[1][index]),
                        (shown[0][index], shown[1][index]),
                    )
                    if now < was:
                        raise Violation(
                            f"{topic.name}-{index} on node {node.id}: leader epoch and partition"
                            f" epoch {now} after {was}"
                        )

    def _judge(self, node: SimNode, topic: Topic, index: int) -> None:
        shown = (topic.leader[index], topic.leader_epoch[index], tuple(topic.isr[index]))
        where = f"{topic.name}-{index} on node {node.id}"
        self.judge(node, where, (topic.id, index, topic.partition_epoch[index]), shown)

    def judge(self, node: SimNode, where: str, key: tuple[Uuid, int, int], shown: Row) -> None:
        """`key` is the topic, the partition and its epoch. Raises `Violation`."""
        written = self._znodes.rows.get(key)
        if written != shown:
            raise Violation(
                f"{where}: leader, epoch and ISR {shown} in partition epoch {key[2]}, for which"
                f" {written} is written"
            )
