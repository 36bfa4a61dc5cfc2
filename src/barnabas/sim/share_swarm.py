"""Share groups of a seed: the same cluster and clients, with members of share groups and a topic of theirs.

Every draw has a generator of its own, so that all others of the seed stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from barnabas.client.consumers.share_consumer import EXPLICIT, IMPLICIT
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.metadata.features import METADATA_VERSION
from barnabas.ports import Rng
from barnabas.sim.faults import KINDS, Kind
from barnabas.sim.faults.transactions import ambush_shares
from barnabas.sim.share_ledger import SHARED
from barnabas.sim.swarm import Swarm
from barnabas.sim.workload import ProducerPlan
from barnabas.sim.workload.share_members import ShareMemberPlan, SharesPlan

T = TypeVar("T")
RngOf = Callable[[str], Rng]
SHARE_KINDS: Mapping[str, Kind] = {**KINDS, "ambush-shares": ambush_shares}
"""The kinds of fault of a seed with share groups."""
CHANGES_LEVELS = "changes levels"
"""The habit of operators that may switch share groups off."""
A, L, J, N = Acknowledge.ACCEPT, Acknowledge.RELEASE, Acknowledge.REJECT, Acknowledge.RENEW
KINDS_SAID = ((A,), (A, A, A, L), (A, A, A, J), (A, A, L, J, N), (A, N), (L, A))


def with_share_groups(rng_of: RngOf, drawn: Swarm) -> Swarm:
    """The swarm, with share groups; the cluster begins with the newest levels."""

    def pick(name: str, *choices: T) -> T:
        return rng_of(f"shares {name}").choice(choices)

    partitions = pick("partitions", 1, 2, 3)
    lock_ms = pick("locks", 1_000, 2_000, 5_000)
    deliveries_max = pick("deliveries", 2, 5, 10, 10)
    topology = replace(
        drawn.topology,
        settings={
            **drawn.topology.settings,
            **_settings(rng_of, lock_ms, deliveries_max),
            **_replication(drawn.topology.nodes),
        },
        features={k: v for k, v in drawn.topology.features.items() if k != METADATA_VERSION},
    )
    producers = tuple(
        ProducerPlan(
            f"sharing{index}",
            SHARED,
            tuple(range(partitions)) if not index else (0,),
            linger_ms=pick("linger", 0.0, 5.0, 20.0),
            pause_ms=pick("pause", 30.0, 100.0, 300.0),
            burst=pick("burst", 1, 3, 10),
        )
        for index in range(pick("producers", 1, 1, 2))
    )
    shares = SharesPlan(
        partitions,
        tuple(_members(rng_of)),
        deliveries_max,
        lock_ms,
        {"share.auto.offset.reset": "earliest"},
    )
    operators = tuple(
        (name, {habit: w for habit, w in weights.items() if habit != CHANGES_LEVELS}, rest_ms)
        for name, weights, rest_ms in drawn.workload.operators
    )
    workload = replace(
        drawn.workload,
        producers=(*drawn.workload.producers, *producers),
        operators=operators,
        shares=shares,
    )
    ambushes = pick("ambushes", 0.0, 0.5, 1.0)
    faults = {**drawn.faults, **({"ambush-shares": ambushes} if ambushes else {})}
    return replace(drawn, topology=topology, workload=workload, faults=faults)


def _settings(rng_of: RngOf, lock_ms: int, deliveries_max: int) -> dict[str, str]:
    """Short locks and sessions, and share coordinators that repeat and prune their records soon."""
    found = {
        "group.share.record.lock.duration.ms": str(lock_ms),
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.delivery.count.limit": str(deliveries_max),
        "group.share.heartbeat.interval.ms": "1000",
        "group.share.min.heartbeat.interval.ms": "1000",
        "group.share.session.timeout.ms": "6000",
        "group.share.min.session.timeout.ms": "6000",
    }
    for key, *choices in (
        ("group.share.initialize.retry.interval.ms", "1000", "5000"),
        ("group.share.assignment.interval.ms", None, "0", "3000"),
        ("group.share.partition.max.record.locks", None, "100", "100"),
        ("share.coordinator.append.linger.ms", None, "0", "20"),
        ("share.coordinator.cold.partition.snapshot.interval.ms", None, "2000"),
        ("share.coordinator.load.buffer.size", None, "200", "2000"),
        ("share.coordinator.snapshot.update.records.per.snapshot", None, "1", "5"),
        ("share.coordinator.state.topic.num.partitions", "1", "2", "3"),
        ("share.coordinator.state.topic.prune.interval.ms", None, "1000"),
    ):
        value = rng_of(f"shares {key}").choice(choices)
        if value is not None:
            found[str(key)] = value
    return found


def _replication(nodes: int) -> dict[str, str]:
    return {
        "share.coordinator.state.topic.replication.factor": str(min(nodes, 3)),
        "share.coordinator.state.topic.min.isr": "2" if nodes >= 3 else "1",
    }


def _members(rng_of: RngOf) -> list[ShareMemberPlan]:
    def pick(name: str, *choices: T) -> T:
        return rng_of(f"shares {name}").choice(choices)

    groups = pick("groups", 1, 1, 2)
    return [
        ShareMemberPlan(
            f"member{index}",
            f"sharers{index % groups}",
            mode=pick(f"mode {index}", EXPLICIT, EXPLICIT, IMPLICIT),
            strict=pick(f"strict {index}", False, False, True),
            records_max=pick(f"records {index}", 1, 5, 50, 500),
            taken_max=pick(f"taken {index}", 1, 10, 500),
            works_ms=pick(f"works {index}", 1.0, 20.0, 200.0),
            dawdles=pick(f"dawdles {index}", 0.0, 0.0, 0.02, 0.2),
            kinds=pick(f"says {index}", *KINDS_SAID),
            commits=pick(f"commits {index}", 0.0, 0.3, 1.0),
            leaves=pick(f"leaves {index}", 0.0, 0.02, 0.1),
            vanishes=pick(f"vanishes {index}", 0.0, 0.02, 0.1),
        )
        for index in range(pick("members", 2, 3, 5))
    ]
