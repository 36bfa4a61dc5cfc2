"""No request ends in a fault of the program, and every frame of a node or client can be read by its peer.
Otherwise the client receives UNKNOWN_SERVER_ERROR, or loses the connection, and retries."""

from __future__ import annotations

from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class NoFaultIsAnswered(Checker):
    EVENTS_BETWEEN_CHECKS = 20

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        self.finish(cluster)

    def finish(self, cluster: SimCluster) -> None:
        if cluster.world.faults:
            raise Violation(cluster.world.faults[0])
