"""The znodes that the ensemble has committed of a cluster, as values: the truth to which brokers are held.

A checker that wants to see each transaction is a :class:`ZnodeRule`; the others ask for `image`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.zookeeper.ensemble import Ensemble
from barnabas.sim.zookeeper.transactions import CommittedTransaction
from barnabas.types import Uuid
from barnabas.zookeeper.controller.metadata_reader import FoundCluster
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS
from barnabas.zookeeper.operations import Multi, NodeData
from barnabas.zookeeper.znode_tree import ZnodeTree

CHROOT = "/kafka"


class ZnodeRule:
    """Looks at each transaction that the ensemble commits; raises
    :class:`barnabas.sim.history.Violation`."""

    def on_transaction(
        self, written: WrittenZnodes, entry: CommittedTransaction, result: object
    ) -> None:
        """`entry` has changed the tree. Where it was refused this is not called."""
        raise NotImplementedError


class WrittenZnodes:
    """The tree of the ensemble below the cluster's chroot."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.tree: ZnodeTree = ensemble.tree
        self.totals = ensemble.world.totals
        self.rules: list[ZnodeRule] = []
        self._image = MetadataImage()
        self._as_of = -1
        self._incomplete: dict[str, list[int]] = {}
        ensemble.followers.append(self._on_committed)

    def _on_committed(self, entry: CommittedTransaction, result: object) -> None:
        if not isinstance(result, ZooKeeperError):
            for rule in self.rules:
                rule.on_transaction(self, entry, result)

    # -- what is there -----------------------------------------------------------------------------

    def get(self, path: str) -> NodeData | None:
        node = self.tree.find(CHROOT + path)
        return None if node is None else NodeData(node.data, node.stat())

    def children(self, path: str) -> list[str]:
        node = self.tree.find(CHROOT + path)
        return [] if node is None else sorted(node.children)

    def below(self, path: str) -> Iterator[tuple[str, NodeData]]:
        """Every znode from `path` on down."""
        found = self.get(path)
        if found is not None:
            yield path, found
        for name in self.children(path):
            yield from self.below(f"{path}/{name}")

    @property
    def everything(self) -> dict[str, NodeData]:
        """All znodes of the cluster, by path."""
        roots = (f"/{name}" for name in self.children(""))
        return dict(found for root in roots for found in self.below(root))

    @property
    def deletions(self) -> list[str]:
        """Topics whose deletion is asked for."""
        return self.children(DELETE_TOPICS)

    @property
    def half_made(self) -> dict[str, list[int]]:
        """The partitions of each topic that have replicas and no state."""
        _ = self.image
        return self._incomplete

    @property
    def image(self) -> MetadataImage:
        """The image with which a controller that read everything now would begin."""
        if self._as_of != self.tree.zxid:
            self._as_of = self.tree.zxid
            found = FoundCluster()
            znodes: dict[str, NodeData] = {}
            for root in ("/brokers", "/config", "/admin", "/latest_producer_id_block"):
                znodes.update(node for node in self.below(root) if node[1].data)
            found.deletions = self.deletions
            numbers = count(1)
            found.load(znodes, lambda name: Uuid(next(numbers).to_bytes(16, "big")))
            self._incomplete = found.incomplete()
            self._image = MetadataImage(track_changes=False)
            self._image.replay_batch(found.records, self.tree.zxid, 0)
        return self._image


def outcomes(request: object, result: object) -> Iterator[tuple[object, object]]:
    """The parts of a transaction, each with its result."""
    if isinstance(request, Multi):
        assert isinstance(result, (list, tuple))
        yield from zip(request.operations, result, strict=True)
    else:
        yield request, result


def operations(request: object) -> tuple[object, ...]:
    """The parts of a transaction."""
    return tuple(request.operations) if isinstance(request, Multi) else (request,)
