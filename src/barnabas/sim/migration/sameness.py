"""Znodes, the log of the quorum and the images of all brokers say the same: at every quiet point of dual
write, and in the end as far as they are in use then.
"""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import History, Violation
from barnabas.sim.migration.cluster import MigratingSimNode, MigrationCluster
from barnabas.sim.zookeeper_mode.settled import difference_from, stray
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER_EPOCH, MIGRATION
from barnabas.zookeeper.layout.topic_znodes import PartitionStateZnode, state_path
from barnabas.zookeeper.migration import comparison
from barnabas.zookeeper.operations import NodeData

LOOK_EVERY_MS = 100.0
"""Between two looks of `BothSayTheSame`: each goes through all znodes."""


class BothSayTheSame(Checker):
    """The rule that both say the same as soon as the controller with the claim says that nothing waits to
    be written."""

    def __init__(self) -> None:
        self._looked_ms = 0.0
        self._as_of: tuple[int, int] = (-1, -1)

    def look(self, cluster: SimCluster, node: SimNode) -> None:
        """After an event on a node under KRaft."""
        assert isinstance(cluster, MigrationCluster) and isinstance(node, MigratingSimNode)
        migration = node.migration
        now_ms = cluster.world.now_ms
        if migration is None or not migration.is_idle or now_ms < self._looked_ms + LOOK_EVERY_MS:
            return
        as_of = cluster.written.tree.zxid, node.image.offset
        if as_of == self._as_of or not _has_claim(cluster, node):
            return
        self._looked_ms, self._as_of = now_ms, as_of
        cluster.world.totals["comparisons of znodes and log"] += 1
        found = difference_of_both(cluster, node.image)
        if found:
            raise Violation(f"node {node.id} has written everything: {found}")


def _has_claim(cluster: MigrationCluster, node: MigratingSimNode) -> bool:
    """Whether the last claim is this controller's, and `/migration` its own last write."""
    held = node.migration.leadership if node.migration is not None else None
    epoch, mark = cluster.written.get(CONTROLLER_EPOCH), cluster.written.get(MIGRATION)
    if held is None or epoch is None or mark is None:
        return False
    present = epoch.stat.version, mark.stat.version
    return present == (held.epoch_version, held.migration_version)


def difference_of_both(cluster: MigrationCluster, log: MetadataImage) -> str:
    """The difference between znodes and `log`: by the code of ``barnabas migrate compare``, and by the
    state znodes, which that leaves out because they move."""
    znodes = cluster.written.everything
    found = comparison.differences(znodes, log)
    if found:
        return f"{found[0].what}: znodes {found[0].znodes!r}, log {found[0].log!r}"
    for topic in log.topics_by_id.values():
        for state in topic.partitions():
            path = state_path(topic.name, state.partition)
            written = _state(path, znodes.get(path))
            isr = tuple(state.isr) or tuple(state.elr) or tuple(state.last_known_elr)
            wanted = state.leader, state.leader_epoch, isr, state.partition_epoch
            if written != wanted:
                return (
                    f"{topic.name}-{state.partition}: leader, epoch, ISR and partition epoch"
                    f" {wanted} in the log, {written} in its znode"
                )
    return ""


def _state(path: str, node: NodeData | None) -> tuple[int, int, tuple[int, ...], int] | None:
    if node is None:
        return None
    state = PartitionStateZnode.decode(path, node.data)
    return state.leader, state.leader_epoch, tuple(state.isr), node.stat.version


def what_differs(cluster: MigrationCluster) -> str:
    """The difference between any broker, or the side that does not rule, and the side that rules; empty where
    all say the same."""
    truth = cluster.truth
    if not cluster.quorum_rules:
        if cluster.written.deletions:
            return f"{cluster.written.deletions} are still to be deleted"
        if cluster.written.half_made:
            return f"partitions without a state: {cluster.written.half_made}"
    elif cluster.are_both_written:
        found = difference_of_both(cluster, truth)
        if found:
            return found
    nodes = (difference_from(truth, node) or stray(node) for node in cluster.brokers)
    return next(filter(None, nodes), "")


class AllSidesAgree(Checker):
    def __init__(self, history: History) -> None:
        self._history = history

    def finish(self, cluster: SimCluster) -> None:
        assert isinstance(cluster, MigrationCluster)
        found = what_differs(cluster)
        if found:
            raise Violation(found)
        topics = cluster.truth.topics_by_name
        for name, partitions in sorted(self._history.topics.items()):
            if name not in topics or len(topics[name]) < partitions:
                raise Violation(
                    f"topic {name} with {partitions} partitions was acknowledged, and is gone"
                )
