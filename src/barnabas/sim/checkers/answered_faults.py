"""No request ends in a fault of the program, and no frame of a node or client is one that another cannot
read: whoever asks would be told UNKNOWN_SERVER_ERROR, or lose the connection, and try again."""

from __future__ import annotations

from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation


class NoFaultIsAnswered(Checker):
    EVERY = 20

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        self.finish(cluster)

    def finish(self, cluster: SimCluster) -> None:
        if cluster.world.faults:
            raise Violation(cluster.world.faults[0])
