"""Invariant 1: a quorum epoch has at most one leader.

Who needs no other vote leads once its own one is durable: killed before, it has led nothing.
"""

from __future__ import annotations

from barnabas.raft.core.states import State
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class OneLeaderPerQuorumEpoch(Checker):
    LOOKS_AT_QUORUM = True

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self._seen: dict[int, State] = {}
        """The state of each node; a state never changes who leads in it."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        assert node.node is not None
        quorum = node.node.quorum
        state = quorum.machine.state
        if state is self._seen.get(node.id) or quorum.is_saving:
            return
        self._seen[node.id] = state
        leader, epoch = quorum.leader_id, quorum.epoch
        if leader < 0:
            return
        known = self.leaders.get(epoch)
        if known is None:
            self.leaders[epoch] = leader
            cluster.world.totals["elections"] += 1
            cluster.world.note(f"quorum epoch {epoch}: node {leader} leads")
        elif known != leader:
            raise Violation(
                f"quorum epoch {epoch} has leaders {known} and {leader} (says node {node.id})"
            )
