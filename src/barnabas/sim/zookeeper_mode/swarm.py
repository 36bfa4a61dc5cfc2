"""The draws of a seed of ZooKeeper mode: those of the other mode without what only a quorum has, and
an ensemble, sessions and faults of its own.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.limits import ZookeeperBounds
from barnabas.sim import swarm
from barnabas.sim.cluster import Topology
from barnabas.sim.swarm import RngOf, Swarm
from barnabas.sim.workload import ConsumerPlan, WorkloadPlan
from barnabas.sim.zookeeper_mode.cluster import ZookeeperTopology
from barnabas.sim.zookeeper_mode.faults import OF_ZOOKEEPER, ZOOKEEPER_KINDS

OF_QUORUMS = frozenset({
    "changes directories",
    "changes levels",
    "changes transactions",
    "configures groups",
    "gives up brokers",
    "looks",
    "makes the quorum dynamic",
    "remakes the groups' topic",
    "switches ELR off",
    "switches ELR on",
})  # fmt: skip
"""Habits of operators that brokers of this mode refuse, or whose judges follow a metadata log."""
RARE = {"ensemble-away": 0.5, "kill-all": 0.3, "restart-all": 0.3, "roll": 0.3, "empty-disk": 2.0}
SESSIONS_MS = ("2000", "4000", "6000", "18000")


def draw(rng_of: RngOf, nodes: int | None = None) -> Swarm:
    """The swarm of a seed whose generators `rng_of` gives."""
    drawn = swarm.draw(rng_of, nodes)
    return replace(
        drawn,
        topology=draw_topology(rng_of, drawn.topology),
        workload=_without_quorum(drawn.workload),
        faults=draw_faults(rng_of),
        bounds=replace(drawn.bounds, zookeeper=draw_bounds(rng_of)),
    )


def draw_bounds(rng_of: RngOf) -> ZookeeperBounds:
    """In half of the seeds decisions are cut into several transactions, and orders into several requests."""
    rng = rng_of("small zookeeper")
    if rng.random() < 0.5:
        return ZookeeperBounds()
    return ZookeeperBounds(
        operations_max=rng.choice([2, 3, 5, 500]), ordered_max=rng.choice([1, 2, 2_000])
    )


def draw_topology(rng_of: RngOf, drawn: Topology) -> ZookeeperTopology:
    settings = dict(drawn.settings)
    settings["zookeeper.session.timeout.ms"] = rng_of("zookeeper sessions").choice(SESSIONS_MS)
    return ZookeeperTopology(
        drawn.nodes,
        racks=drawn.racks,
        settings=settings,
        lives_differ=True,
        servers=rng_of("zookeeper servers").choice([1, 3, 3, 3, 5]),
        lag_ms=rng_of("zookeeper lag").choice([0.0, 0.0, 20.0, 300.0]),
    )


def draw_faults(rng_of: RngOf) -> dict[str, float]:
    """The faults of the other mode: most kinds not at all, a few often; those of this mode in more seeds."""
    weights = {}
    for kind in sorted(ZOOKEEPER_KINDS):
        rng = rng_of(f"mix {kind}")
        if rng.random() < (0.5 if kind in OF_ZOOKEEPER else 0.3):
            rare = RARE.get(kind, 1.0)
            weights[kind] = rng.uniform(0.1, 1.0) ** 2 * rare
    return weights or {"kill": 1.0}


def _without_quorum(drawn: WorkloadPlan) -> WorkloadPlan:
    """Classic groups only, and operators without habits that this mode does not have."""
    return replace(
        drawn,
        consumers=tuple(_classic(plan) for plan in drawn.consumers),
        operators=tuple(
            (
                name,
                {habit: often for habit, often in habits.items() if habit not in OF_QUORUMS},
                rest,
            )
            for name, habits, rest in drawn.operators
            if name != "upgrader"
        ),
    )


def _classic(plan: ConsumerPlan) -> ConsumerPlan:
    return replace(plan, protocol="classic", remote_assignor=None)
