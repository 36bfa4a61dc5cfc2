"""Calls `validate` of each machine from time to time: quorum replica, controller, replicas, coordinators,
listeners.

Each machine asserts its own invariants beside its state; this checker only calls the assertions. It finds an
impossible state before a client can see a consequence of it.
"""

from __future__ import annotations

from barnabas.broker.broker import Broker
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode


class MachinesAreValid(Checker):
    EVENTS_BETWEEN_CHECKS = 500
    """Not fewer: a check visits every replica of a node."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        inside = node.node
        assert inside is not None
        inside.quorum.machine.validate()
        for server in inside.listeners.servers.values():
            server.validate()
        if inside.controller is not None:
            inside.controller.validate()
        if inside.migrating is not None:
            inside.migrating.validate()
        if inside.broker is not None:
            validate_broker(inside.broker)

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            self.check(cluster, node)


def validate_broker(broker: Broker) -> None:
    broker.image.validate()
    broker.replicas.validate()
    broker.replicas.fetchers.validate()
    broker.fetches.validate()
    for groups in broker.groups.shards.values():
        if groups.active:
            groups.machine.validate()
    broker.transactions.markers.validate()
    for transactions in broker.transactions.coordinators.shards.values():
        if transactions.active:
            transactions.machine.validate()
    if broker.shares.opened is not None:
        broker.shares.opened.validate()
