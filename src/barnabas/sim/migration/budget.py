"""How much may be broken at once while a cluster migrates: as in ZooKeeper mode, by the side that rules."""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.cluster import SimNode
from barnabas.sim.migration.cluster import MigrationCluster
from barnabas.sim.migration.sameness import what_differs
from barnabas.sim.zookeeper_mode.budget import ZookeeperBudget
from barnabas.sim.zookeeper_mode.cluster import ZookeeperSimNode
from barnabas.sim.zookeeper_mode.settled import difference_from


class MigrationBudget(ZookeeperBudget):
    def __init__(self, cluster: MigrationCluster) -> None:
        super().__init__(cluster)
        self._migrating = cluster

    def image(self) -> MetadataImage | None:
        return self._migrating.truth

    def may_lose_data(self, node: SimNode) -> bool:
        """Controllers sync before they count. Of a broker nothing is lost: znodes know no ELR."""
        return node.id not in self._migrating.topology.broker_ids

    def find_difference(self) -> str:
        return what_differs(self._migrating)

    def knows_newest(self, node: SimNode) -> bool:
        if not isinstance(node, ZookeeperSimNode) or node.broker is None:
            return False
        return not difference_from(self._migrating.truth, node)
