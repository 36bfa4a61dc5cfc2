"""A topic whose creation the controller acknowledged is in the committed metadata of every broker that has
applied the creation's offset, until a client asks to delete the topic.

The answer to a creation rests on the commit of its records; a controller that answers earlier, and dies,
takes the topic with it.
"""

from __future__ import annotations

from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import History, Violation


class AcknowledgedTopicsStay(Checker):
    def __init__(self, history: History) -> None:
        self._history = history

    def finish(self, cluster: SimCluster) -> None:
        newest = max(n.node.quorum.high_watermark for n in cluster.up() if n.node is not None)
        for node in cluster.up():
            assert node.node is not None
            if node.node.broker is None or node.node.quorum.applied_offset < newest:
                continue
            topics = node.node.metadata.image.topics_by_name
            for name, partitions in sorted(self._history.topics.items()):
                topic = topics.get(name)
                if topic is None or len(topic) < partitions:
                    raise Violation(
                        f"topic {name} with {partitions} partitions was acknowledged; node {node.id}"
                        f" has {'none' if topic is None else len(topic)}"
                    )
