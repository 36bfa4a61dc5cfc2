"""Invariant 10 at the coordinator: a marker is written only for an end that is committed.

A decision that is not replicated may be lost with its coordinator. The next one would decide by itself, and a
transaction of which some partitions have the former decision's markers would be torn.
"""

from __future__ import annotations

from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.transaction.states import TransactionState

_ENDS = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}


class MarkersFollowDecisions(Checker):
    def check(self, cluster: SimCluster, node: SimNode) -> None:
        broker = node.broker
        if broker is None:
            return
        shards = broker.transactions.coordinators.shards
        for partition, markers in broker.transactions.markers.asked():
            shard = shards.get(partition)
            if shard is None or not shard.active:
                continue
            known = shard.machine.ids.committed(markers.transactional_id)
            if known is None or _ENDS.get(known.state) is not markers.commit:
                raise Violation(
                    f"node {node.id} writes markers of {markers.transactional_id}"
                    f" ({'commit' if markers.commit else 'abort'}); committed is {known}"
                )

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            self.check(cluster, node)
