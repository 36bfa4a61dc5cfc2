"""How much may be broken at once in ZooKeeper mode: znodes say what is known, and no broker's log does."""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.classical.cluster import ClassicalCluster, ClassicalSimNode
from barnabas.sim.classical.settled import difference, stray
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.budget import Budget


class ClassicalBudget(Budget):
    """There is no ELR: what loses unsynced bytes strikes only where everything is synced, and a disk is
    emptied only where its broker is in no ISR (`faults.empty_disk`). The ensemble loses nothing."""

    def __init__(self, cluster: ClassicalCluster) -> None:
        super().__init__(cluster)
        self._written = cluster.written
        self._of = cluster

    def image(self) -> MetadataImage | None:
        return self._written.image

    def what_differs(self) -> str:
        if self._written.deletions:
            return f"{self._written.deletions} are still to be deleted"
        found = (difference(self._of, node) or stray(node) for node in self._of.brokers)
        return next(filter(None, found), "")

    def knows_newest(self, node: SimNode) -> bool:
        return isinstance(node, ClassicalSimNode) and not difference(self._of, node)

    def may_lose_metadata(self, node: SimNode) -> bool:
        return False
