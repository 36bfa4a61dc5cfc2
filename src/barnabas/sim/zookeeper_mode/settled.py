"""Once everything has settled, znodes and every broker's image say the same, and no broker keeps the log of a
partition that is not its own.
"""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import Topic
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import History, Violation
from barnabas.sim.zookeeper_mode.cluster import ZookeeperCluster, ZookeeperSimNode


def difference(cluster: ZookeeperCluster, node: ZookeeperSimNode) -> str:
    """The difference between the broker's image and the znodes; empty where there is none."""
    return difference_from(cluster.written.image, node)


def difference_from(written: MetadataImage, node: ZookeeperSimNode) -> str:
    """The `difference`, where `written` is what the znodes say, or the log that rules in their place."""
    image = node.image
    if image.topics_by_name.keys() != written.topics_by_name.keys():
        odd = sorted(image.topics_by_name.keys() ^ written.topics_by_name.keys())
        return f"topics {odd} are either on node {node.id} or in znodes"
    for name in sorted(written.topics_by_name):
        found = _other_rows(written.topics_by_name[name], image.topics_by_name[name])
        found = found or _other_configs(written, image, name)
        if found:
            return f"{found} on node {node.id}"
    alive = [
        sorted(b for b, known in i.brokers.items() if not known.fenced) for i in (written, image)
    ]
    if alive[0] != alive[1]:
        return f"brokers {alive[0]} are registered, node {node.id} knows of {alive[1]}"
    return ""


def _other_rows(written: Topic, known: Topic) -> str:
    if written.id != known.id or len(written) != len(known):
        return f"{written.name} is {written!r} in znodes and {known!r}"
    for index in range(len(written)):
        one, other = written.partition(index), known.partition(index)
        pairs = [
            (what, getattr(one, what), getattr(other, what))
            for what in (
                "leader", "leader_epoch", "partition_epoch", "isr", "replicas", "adding", "removing"
            )
        ]  # fmt: skip
        odd = [
            f"{what} {a} in znodes and {b}" for what, a, b in pairs if tuple_of(a) != tuple_of(b)
        ]
        if odd:
            return f"{written.name}-{index}: {', '.join(odd)}"
    return ""


def tuple_of(value: object) -> object:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _other_configs(written: MetadataImage, image: MetadataImage, name: str) -> str:
    one, other = dict(written.config(2, name)), dict(image.config(2, name))
    return "" if one == other else f"{name}: configuration {one} in znodes and {other}"


def stray(node: ZookeeperSimNode) -> str:
    """A log of a partition that the broker has no replica of."""
    broker = node.broker
    if broker is None:
        return ""
    for name in sorted(broker.logs.logs):
        topic = broker.image.topics_by_name.get(name.topic)
        if topic is None or not topic.has(name.partition):
            return f"node {node.id} keeps {name}, which is no more"
        if node.id not in topic.replicas[name.partition]:
            return f"node {node.id} keeps {name}, of which it is no replica"
    return ""


class EveryoneSaysTheSame(Checker):
    def __init__(self, history: History) -> None:
        self._history = history

    def finish(self, cluster: SimCluster) -> None:
        assert isinstance(cluster, ZookeeperCluster)
        if cluster.written.deletions:
            raise Violation(f"topics {cluster.written.deletions} are still to be deleted")
        if cluster.written.half_made:
            raise Violation(f"partitions without a state: {cluster.written.half_made}")
        for node in cluster.brokers:
            found = difference(cluster, node) or stray(node)
            if found:
                raise Violation(found)
        topics = cluster.written.image.topics_by_name
        for name, partitions in sorted(self._history.topics.items()):
            if name not in topics or len(topics[name]) < partitions:
                raise Violation(
                    f"topic {name} with {partitions} partitions was acknowledged, and is gone"
                )
