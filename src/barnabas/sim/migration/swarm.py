"""The draws of a seed of a migration: those of ZooKeeper mode, a quorum, and the attempts."""

from __future__ import annotations

from dataclasses import fields, replace

from barnabas.metadata.features import LATEST_METADATA_VERSION
from barnabas.sim.migration.cluster import AttemptPlan, MigrationTopology
from barnabas.sim.migration.faults import MIGRATION_KINDS, OF_MIGRATIONS
from barnabas.sim.swarm import RngOf, Swarm
from barnabas.sim.workload import WorkloadPlan
from barnabas.sim.zookeeper_mode import swarm as zookeeper_swarm
from barnabas.sim.zookeeper_mode.cluster import ZookeeperTopology
from barnabas.sim.zookeeper_mode.faults import OF_ZOOKEEPER

RARE = {**zookeeper_swarm.RARE, "kill-quorum": 0.5, "ambush-migration": 3.0}
LEVELS = (LATEST_METADATA_VERSION, LATEST_METADATA_VERSION, 24, 21, 16, 14)
"""The levels of metadata.version; the lowest is the lowest to which a cluster migrates."""
SLOWER = 4.0
STOPPED = 0.25
"""Share of seeds in which a cluster is stopped for its migration."""
ATTEMPTS = (1, 1, 2, 2, 3)


def draw(rng_of: RngOf, nodes: int | None = None) -> Swarm:
    """The swarm of a seed whose generators `rng_of` gives."""
    drawn = zookeeper_swarm.draw(rng_of, nodes)
    assert isinstance(drawn.topology, ZookeeperTopology)
    return replace(
        drawn,
        topology=draw_topology(rng_of, drawn.topology),
        workload=slowed_down(drawn.workload),
        faults=draw_faults(rng_of),
    )


def slowed_down(drawn: WorkloadPlan) -> WorkloadPlan:
    """A migration takes some four times as long as another seed, with as many messages. Nothing is cordoned:
    a cluster that has gone back could not take that back."""
    return replace(
        drawn,
        operators=tuple(
            (name, {habit: often for habit, often in habits.items() if habit != "cordons"}, rest)
            for name, habits, rest in drawn.operators
        ),
        producers=tuple(replace(p, pause_ms=p.pause_ms * SLOWER) for p in drawn.producers),
        processors=tuple(replace(p, pause_ms=p.pause_ms * SLOWER) for p in drawn.processors),
        consumers=drawn.consumers[:2],
        readers=drawn.readers[:1],
    )


def draw_topology(rng_of: RngOf, drawn: ZookeeperTopology) -> MigrationTopology:
    known = {field.name: getattr(drawn, field.name) for field in fields(drawn)}
    return MigrationTopology(
        **known,
        quorum=rng_of("migrating quorum").choice([1, 3, 3]),
        level=rng_of("migrating level").choice(LEVELS),
        attempts=draw_stopped(rng_of, draw_attempts(rng_of, drawn.nodes)),
        pause_ms=rng_of("migrating pause").choice([100.0, 400.0, 1_200.0]),
        is_careful=rng_of("migrating carefully").random() < 0.5,
    )


def draw_attempts(rng_of: RngOf, nodes: int) -> tuple[AttemptPlan, ...]:
    """The way back is taken at most twice; the last attempt ends the migration, stays or goes back, too."""
    rng = rng_of("migrating attempts")
    count = rng.choice(ATTEMPTS)
    attempts = []
    for number in range(1, count + 1):
        ends = "back"
        if number == count:
            ends = rng.choice(["final", "final", "both", *(["back"] if count < 3 else [])])
        waits = ends != "back" or rng.random() < 0.75
        under_kraft = rng.choice([0, 1, nodes - 1, nodes]) if waits else 0
        attempts.append(AttemptPlan(ends, waits, under_kraft))
    return tuple(attempts)


def draw_stopped(rng_of: RngOf, attempts: tuple[AttemptPlan, ...]) -> tuple[AttemptPlan, ...]:
    """The attempts of a quarter of the seeds for which the cluster is stopped."""
    rng = rng_of("migrating stopped")
    if rng.random() >= STOPPED:
        return attempts
    return tuple(replace(one, is_stopped=rng.random() < 0.7) for one in attempts)


def draw_faults(rng_of: RngOf) -> dict[str, float]:
    """The faults of ZooKeeper mode; those of a migration in more seeds."""
    weights = {}
    for kind in sorted(MIGRATION_KINDS):
        rng = rng_of(f"mix {kind}")
        often = 0.5 if kind in OF_MIGRATIONS else 0.3 if kind in OF_ZOOKEEPER else 0.2
        if rng.random() < often:
            weights[kind] = rng.uniform(0.1, 1.0) ** 2 * RARE.get(kind, 1.0)
    return weights or {"kill": 1.0}
