"""How much may be broken at once in ZooKeeper mode: znodes say what is known, and no broker's log does."""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.budget import Budget
from barnabas.sim.zookeeper_mode.cluster import ZookeeperCluster, ZookeeperSimNode
from barnabas.sim.zookeeper_mode.settled import difference, stray

LOOK_EVERY_MS = 50.0
"""Between two looks at all images."""


class ZookeeperBudget(Budget):
    """There is no ELR: what loses unsynced bytes strikes only where everything is synced, and a disk is
    emptied only where its broker is in no ISR (`faults.empty_disk`). The ensemble loses nothing."""

    def __init__(self, cluster: ZookeeperCluster) -> None:
        super().__init__(cluster)
        self._written = cluster.written
        self._cluster = cluster
        self._looked_ms = 0.0
        self._differs = "not looked at yet"

    def image(self) -> MetadataImage | None:
        return self._written.image

    def what_differs(self) -> str:
        """Looked at now and then: the look goes through all topics of all brokers."""
        now_ms = self.cluster.world.now_ms
        if now_ms >= self._looked_ms + LOOK_EVERY_MS:
            self._looked_ms, self._differs = now_ms, self.find_difference()
        return self._differs

    def find_difference(self) -> str:
        """The difference that a look at everything finds; empty where all say the same."""
        if self._written.deletions:
            return f"{self._written.deletions} are still to be deleted"
        if self._written.half_made:
            return f"partitions without a state: {self._written.half_made}"
        found = (difference(self._cluster, node) or stray(node) for node in self._cluster.brokers)
        return next(filter(None, found), "")

    def knows_newest(self, node: SimNode) -> bool:
        return isinstance(node, ZookeeperSimNode) and not difference(self._cluster, node)

    def may_lose_metadata(self, node: SimNode) -> bool:
        return False
