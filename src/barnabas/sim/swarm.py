"""The draws that make a seed: topology, settings, workload mix and fault mix, each drawn for itself.

Swarm testing: a mix in which everything is a little likely finds less than many mixes that each leave
out some things and overdo others. Every draw has a generator named after what it decides, so that a new
setting, habit or kind of fault leaves all other draws of a seed as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from barnabas.limits import NodeBounds
from barnabas.metadata.features import (
    DIRECTORIES_SINCE,
    ELR_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
)
from barnabas.ports import Rng
from barnabas.record.compression import Codec
from barnabas.sim import bounds
from barnabas.sim.cluster import Topology
from barnabas.sim.faults import KINDS, LOSE_DATA
from barnabas.sim.history import Promise
from barnabas.sim.secured import TOKENS_SINCE
from barnabas.sim.workload import (
    ConsumerPlan,
    ProducerPlan,
    ReaderPlan,
    TopicPlan,
    WorkloadPlan,
    api_versions,
)
from barnabas.sim.workload.administration import NOT_OLD
from barnabas.sim.workload.eager_transactions import EagerPlan, StallPlan
from barnabas.sim.workload.guests import GuestsPlan
from barnabas.sim.workload.operator import HABITS
from barnabas.sim.workload.prepared import PreparerPlan
from barnabas.sim.workload.transactions import ProcessorPlan

T = TypeVar("T")
RngOf = Callable[[str], Rng]

BRIEF_OFFSETS = "offsets.retention.minutes"
PRODUCERS_EXPIRE = "producer.id.expiration.ms"
CHANGES_LEVEL = "changes transactions"
"""The habit of an operator that raises and lowers transaction.version."""
SETTINGS: Mapping[str, Sequence[str | None]] = {
    "controller.quorum.append.linger.ms": (None, None, "0", "5"),
    "controller.quorum.election.backoff.max.ms": (None, None, "100"),
    "controller.quorum.fetch.max.bytes": (None, None, None, "400", "3000"),
    "controller.quorum.fetch.snapshot.max.bytes": (None, "300", "2000"),
    "internal.metadata.max.batch.size.in.bytes": (None, None, None, "20000"),
    "internal.metadata.log.segment.bytes": (None, "4096", "16384"),
    "log.cleaner.backoff.ms": (None, "100", "500"),
    "log.cleaner.delete.retention.ms": (None, None, "0", "1000"),
    "log.cleaner.max.compaction.lag.ms": (None, None, "1000"),
    "log.cleaner.min.compaction.lag.ms": (None, None, "500"),
    "log.flush.interval.messages": (None, None, None, "1", "20"),
    "log.flush.interval.ms": (None, None, "500"),
    "log.flush.scheduler.interval.ms": (None, "1000"),
    "log.flush.start.offset.checkpoint.interval.ms": (None, "1000"),
    "log.index.interval.bytes": (None, "64"),
    "log.index.size.max.bytes": (None, None, "96"),
    "log.initial.task.delay.ms": (None, "0", "1000"),
    "log.retention.check.interval.ms": (None, "1000", "1000"),
    "log.segment.delete.delay.ms": (None, "0", "1000"),
    "log.roll.ms": (None, None, "500", "3000"),
    "metadata.log.max.record.bytes.between.snapshots": (None, "1500", "4000", "10000"),
    "metadata.log.max.snapshot.interval.ms": (None, None, "2000"),
    "metadata.log.segment.ms": (None, None, "500"),
    "metadata.max.idle.interval.ms": (None, None, None, "0", "150"),
    "metadata.max.retention.bytes": (None, "6000", "20000"),
    "metadata.max.retention.ms": (None, None, "1000"),
    "internal.metadata.delete.delay.millis": (None, "0", "1000"),
    "num.replica.fetchers": (None, None, "2"),
    "controlled.shutdown.enable": (None, None, None, "false"),
    "group.coordinator.append.linger.ms": (None, "0", "30"),
    "log.dir.failure.timeout.ms": (None, "1000"),
    "max.incremental.fetch.session.cache.slots": (None, None, None, None, "0", "2"),
    "offsets.load.buffer.size": (None, "100", "2000"),
    "offsets.retention.check.interval.ms": ("300", "300", "2000"),
    BRIEF_OFFSETS: (None, None, "1", "30"),
    "offsets.topic.compression.codec": (None, None, "1", "4"),
    "offsets.topic.num.partitions": ("1", "2", "3"),
    "producer.id.expiration.check.interval.ms": (None, "200", "1000"),
    PRODUCERS_EXPIRE: (None, None, None, "300", "60000"),
    "replica.alter.log.dirs.io.max.bytes.per.second": (None, None, None, "10000"),
    "replica.fetch.backoff.ms": (None, "100"),
    "replica.fetch.max.bytes": (None, None, "700"),
    "replica.fetch.min.bytes": (None, None, None, None, "300"),
    "replica.fetch.response.max.bytes": (None, None, None, "1500"),
    "replica.fetch.wait.max.ms": (None, None, None, "150"),
    "replica.lag.time.max.ms": ("1000", "3000"),
    "replica.high.watermark.checkpoint.interval.ms": (None, "300"),
    "log.flush.offset.checkpoint.interval.ms": (None, "1000"),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ("300", "2000"),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (None, "1000"),
    "transaction.state.log.load.buffer.size": (None, "100", "2000"),
    "transaction.state.log.num.partitions": ("1", "2", "3"),
    "leader.imbalance.check.interval.seconds": (None, "1", "3"),
}
"""The settings of a seed, with the values it draws from; None leaves the default."""
REWRITES: Mapping[str, Sequence[str | None]] = {
    "compression.type": (None, None, None, None, None, "gzip"),
    "message.timestamp.type": (None, None, None, "LogAppendTime"),
}
"""The settings that let a leader write other bytes than those that a producer sent."""
SCRAM_SINCE = 11
"""The metadata.version (3.5-IV2) from which on the log has SCRAM credentials."""
OLDER_LEVELS = (7, 7, 11, 14, 16, 17, 19)
"""The levels of metadata.version from before log directories, registered controllers, and so on."""
FEW_VALUES_OF_MIN_ISR = ("2", "2", "2", "1")
RARE = {
    "restart-all": 0.3,
    "kill-all": 0.3,
    "blackout": 2.0,
    "roll": 0.3,
    "power": 1.5,
    "voters": 6.0,
    "ambush-surveys": 3.0,
    "ambush-moves": 8.0,
    "ambush-transactions": 3.0,
    "lose-history": 1.0,
    "lose-quorum": 4.0,
    "away-for-long": 2.0,
    "rot": 3.0,
    "rot-at-rest": 3.0,
    "lost-segment": 3.0,
    "rot-of-coordinator": 3.0,
    "misread": 3.0,
    "misread-metadata": 3.0,
    "moves": 2.0,
}
"""Kinds of fault that come less often, or more, than others."""
PROTOCOLS = (("classic",), ("consumer",), ("consumer",), ("classic", "consumer"))
"""The protocols of the members of a group, in turn."""
RAISES = (0.0, 0.0, 0.0, 0.02, 0.1)
"""How often callbacks of clients do, where they do."""
OFTEN = {
    "tends offsets": 2.0,
    "gives up brokers": 4.0,
    "keeps offsets briefly": 2.0,
    "reads briefly": 2.0,
    "switches ELR off": 4.0,
}
"""Habits that few seeds allow come often where they are allowed."""


@dataclass(frozen=True)
class Swarm:
    """All draws of one seed that are made before it begins."""

    topology: Topology
    workload: WorkloadPlan
    faults: Mapping[str, float]
    interval_ms: float
    """Between two faults, on the average."""
    restarts: bool
    """Whether everything is shut down and started once more when it has healed."""
    reads_on: bool
    """Whether groups are waited for until they have read everything: sessions of lost members take long."""
    cuts: bool
    """Whether records are deleted when everything has been read."""
    bounds: NodeBounds
    """How much a node does in one go; small in some seeds."""


def draw(
    rng_of: RngOf, nodes: int | None = None, *, secured: bool = False, eager: bool = False
) -> Swarm:
    """The swarm of a seed whose generators `rng_of` gives; `secured` adds SASL, an authorizer and guests,
    `eager` clients that begin each transaction at once."""
    interval = rng_of("interval").choice([250.0, 500.0, 1000.0, 2000.0])
    topology = draw_topology(rng_of, nodes)
    workload = draw_workload(rng_of, interval)
    if eager:
        topology, workload = _with_eager_clients(rng_of, topology, workload)
    if topology.first_level < NOT_OLD:
        workload = replace(workload, operators=(*workload.operators, *_upgraders(rng_of)))
    if secured:
        topology, workload = secure(rng_of, topology, workload)
    return Swarm(
        topology,
        workload,
        draw_faults(rng_of),
        interval,
        rng_of("restart at the end").random() < 0.12,
        rng_of("groups at the end").random() < 0.2,
        rng_of("cuts at the end").random() < 0.5,
        bounds.draw(rng_of),
    )


def secure(
    rng_of: RngOf, topology: Topology, workload: WorkloadPlan
) -> tuple[Topology, WorkloadPlan]:
    """The same cluster and clients behind SASL and ACLs, with guests."""
    settings = dict(topology.settings)
    reauthentication = _pick(rng_of, "connections.max.reauth.ms", None, None, "1000", "5000")
    if reauthentication is not None:
        settings["connections.max.reauth.ms"] = reauthentication
    scram = topology.first_level >= SCRAM_SINCE
    guests = GuestsPlan(
        pause_ms=_pick(rng_of, "guests pause", 30.0, 100.0, 300.0),
        changes_ms=_pick(rng_of, "access changes", 100.0, 400.0, 1500.0),
        mechanism=_pick(
            rng_of, "guests authenticate", "PLAIN", "SCRAM-SHA-256" if scram else "PLAIN"
        ),
    )
    guests = replace(guests, tokens=topology.first_level >= TOKENS_SINCE)
    return (
        replace(topology, is_secured=True, settings=settings),
        replace(workload, guests=guests),
    )


def _pick(rng_of: RngOf, name: str, *choices: T) -> T:
    return rng_of(f"swarm {name}").choice(choices)


def draw_topology(rng_of: RngOf, nodes: int | None) -> Topology:
    """How many nodes of which roles, and their settings."""
    nodes = nodes or _pick(rng_of, "nodes", 1, 2, 3, 3, 3, 3, 3, 4, 5)
    # Operators may take a topic's own small segments away; preallocated ones are in memory here.
    settings = {"log.segment.bytes": "1048576"}
    for key in sorted(SETTINGS):
        value = _pick(rng_of, key, *SETTINGS[key])
        if value is not None:
            settings[key] = value
    if nodes >= 3:
        settings["min.insync.replicas"] = _pick(rng_of, "min ISR", *FEW_VALUES_OF_MIN_ISR)
    features = {}
    level = _pick(rng_of, METADATA_VERSION, None, None, None, 21, 24)
    if level is not None:
        level = _pick(rng_of, "old cluster", level, level, level, *OLDER_LEVELS)
        features[METADATA_VERSION] = level
    elif _pick(rng_of, ELR_VERSION, True, True, True, False) is False:
        features[ELR_VERSION] = 0
    begins = level or LATEST_METADATA_VERSION
    dynamic = _pick(rng_of, "dynamic", False, True)
    if dynamic and _pick(rng_of, "controllers join", False, False, True):
        settings["controller.quorum.auto.join.enable"] = "true"
    return Topology(
        nodes,
        racks=_pick(rng_of, "racks", 0, 0, 2, 3),
        settings=settings,
        controllers=_pick(rng_of, "controllers", 0, 0, 0, 1, 3, 3),
        voters=_pick(rng_of, "voters", 0, 1, 2, 3) if dynamic else 0,
        dynamic=dynamic,
        directories=_pick(rng_of, "directories", 1, 1, 2, 3) if begins >= DIRECTORIES_SINCE else 1,
        features=features,
        lives_differ=True,
    )


def draw_faults(rng_of: RngOf) -> dict[str, float]:
    """How often each kind of fault comes: most kinds not at all, a few often."""
    weights = {}
    gentle = _pick(rng_of, "gentle", False, False, False, False, True)
    for kind in sorted(KINDS):
        if gentle and kind in LOSE_DATA:
            continue  # operators may do more in such a seed
        rng = rng_of(f"mix {kind}")
        if rng.random() < 0.4:
            weights[kind] = rng.uniform(0.1, 1.0) ** 2 * RARE.get(kind, 1.0)
    return weights or {"kill": 1.0}


def draw_workload(rng_of: RngOf, interval_ms: float) -> WorkloadPlan:
    """Two idempotent producers always; others, groups and operators as drawn. The rarer the faults, the
    slower the clients: a few faults and what they lead to fall into a few thousand messages."""
    pause = interval_ms * _pick(rng_of, "pace", 0.1, 0.2, 0.4)
    size = _pick(rng_of, "value bytes", 0, 0, 40, 400)
    linger = _pick(rng_of, "linger", 0.0, 2.0, 20.0)
    codec = _pick(rng_of, "codec", Codec.NONE, Codec.NONE, Codec.NONE, *Codec)
    segments = _pick(rng_of, "internal.segment.bytes", None, None, "2000", "8000")
    configs = {} if segments is None else {"internal.segment.bytes": segments}
    if segments is not None and _pick(rng_of, "preallocate", False, False, True):
        configs["preallocate"] = "true"
    for key in ("compression.type", "message.timestamp.type"):
        value = _pick(rng_of, key, *REWRITES[key])
        if value is not None:
            configs[key] = value
    topics = [TopicPlan("events", 3, configs=configs)]
    producers = [
        ProducerPlan("producer0", "events", (0, 2), linger_ms=linger, pause_ms=pause, value_bytes=size),
        ProducerPlan(
            "producer1", "events", (1,), linger_ms=linger, pause_ms=pause, value_bytes=size, codec=codec
        ),
    ]  # fmt: skip
    for topic, producer in _others(rng_of, pause):
        topics.append(topic)
        producers.append(producer)
    raises = _pick(rng_of, "deliveries raise", *RAISES)
    plan = WorkloadPlan(
        tuple(topics),
        tuple(replace(producer, raises=raises) for producer in producers),
        tuple(_consumers(rng_of, tuple(topic.name for topic in topics))),
        tuple(_readers(rng_of, tuple(topic.name for topic in topics))),
        tuple(_operators(rng_of)),
        tuple(_processors(rng_of, pause)),
        tuple(_preparers(rng_of, pause)),
    )
    return replace(plan, newest=api_versions.draw(rng_of, plan))


def _others(rng_of: RngOf, pause: float) -> list[tuple[TopicPlan, ProducerPlan]]:
    """Topics that promise less, each with the producer that may rely on less."""
    found = []
    forgets = _pick(rng_of, PRODUCERS_EXPIRE, *SETTINGS[PRODUCERS_EXPIRE]) is not None
    if _pick(rng_of, "plain", False, False, True):
        found.append((
            TopicPlan("plain", 1, Promise(once=False)),
            ProducerPlan("plain0", "plain", (0,), idempotent=False, pause_ms=pause),
        ))  # fmt: skip
    if _pick(rng_of, "hasty", False, False, True):
        acks = _pick(rng_of, "hasty acks", 0, 1)
        found.append((
            TopicPlan("hasty", 1, Promise(keeps=False, once=False)),
            ProducerPlan("hasty0", "hasty", (0,), acks=acks, idempotent=False, pause_ms=pause),
        ))  # fmt: skip
    if _pick(rng_of, "latest", False, False, True):
        compacts: dict[str, str | None] = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": _pick(rng_of, "latest segments", "700", "3000"),
            "min.cleanable.dirty.ratio": _pick(rng_of, "dirty", "0.1", "0.5"),
        }
        found.append((
            TopicPlan(
                "latest",
                1,
                Promise(once=not forgets, may_be_cut=False, compacts=True),
                compacts,
            ),
            ProducerPlan("latest0", "latest", (0,), pause_ms=pause, keys=_pick(rng_of, "keys", 2, 10)),
        ))  # fmt: skip
    if _pick(rng_of, "brief", False, False, True):
        lasts: dict[str, str | None] = {
            "internal.segment.bytes": "700",
            "retention.bytes": _pick(rng_of, "brief bytes", "700", "3000"),
        }
        keys = _pick(rng_of, "brief keys", 0, 0, 3, 10)
        if keys:
            # Segments go while they are compacted.
            lasts |= {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.1"}
        once = not (forgets and keys)  # what compacts is not followed batch by batch
        promise = Promise(keeps=False, once=once, expires=True, compacts=bool(keys))
        found.append((
            TopicPlan("brief", 1, promise, lasts),
            ProducerPlan("brief0", "brief", (0,), pause_ms=pause, keys=keys),
        ))  # fmt: skip
    if _pick(rng_of, "unclean", False, False, True):
        configs: dict[str, str | None] = {"unclean.leader.election.enable": "true"}
        strategy = _pick(rng_of, "strategy", None, "Aggressive", "Balanced")
        if strategy is not None:
            configs["unclean.recovery.strategy"] = strategy
        nothing = Promise(keeps=False, once=False, settles=False, may_be_cut=False)
        count = _pick(rng_of, "unclean partitions", 1, 2, 6)
        found.append((
            TopicPlan("unclean", count, nothing, configs),
            ProducerPlan("unclean0", "unclean", tuple(range(count)), pause_ms=pause),
        ))  # fmt: skip
    return found


def _consumers(rng_of: RngOf, topics: tuple[str, ...]) -> list[ConsumerPlan]:
    count = _pick(rng_of, "consumers", 1, 2, 2, 3)
    groups = _pick(rng_of, "groups", 1, 1, 2)
    stays = _pick(rng_of, "members stay", 0.0, 2000.0, 5000.0)
    is_static = _pick(rng_of, "static members", False, False, True)
    overlaps = _pick(rng_of, "members overlap", False, False, True)
    mixed = _pick(rng_of, "group protocols", *PROTOCOLS)
    return [
        ConsumerPlan(
            f"consumer{index}",
            f"readers{index % groups}",
            topics,
            commit_ms=_pick(rng_of, "commits", 100.0, 400.0, 1000.0),
            stays_ms=stays if index else 0.0,
            is_static=is_static,
            protocol=mixed[index % len(mixed)],
            remote_assignor=_pick(rng_of, "remote assignors", None, "uniform", "range"),
            overlaps=overlaps,
            raises=_pick(rng_of, "callbacks raise", *RAISES),
            taken_max=_pick(rng_of, "records taken", 500, 500, 1),
            whims_ms=_pick(rng_of, "whims", 0.0, 0.0, 1500.0, 5000.0),
        )
        for index in range(count)
    ]


def _processors(rng_of: RngOf, pause: float) -> list[ProcessorPlan]:
    """Those that write in transactions; where two have one transactional id they fence each other."""
    count = _pick(rng_of, "processors", 1, 1, 2, 3)
    ids = _pick(rng_of, "transactional ids", 1, 2, 3)
    partitions = _pick(rng_of, "ledger partitions", 1, 2, 3)
    # Offsets of groups without members expire by the date of their commit.
    lasts = _pick(rng_of, BRIEF_OFFSETS, *SETTINGS[BRIEF_OFFSETS]) != "1"
    return [
        ProcessorPlan(
            f"processor{index}",
            f"tx{index % ids}",
            partitions,
            pause_ms=pause * 2,
            records=_pick(rng_of, "records of a transaction", 1, 4, 10),
            timeout_ms=_pick(rng_of, "transactions may take", 1_000, 4_000, 15_000),
            aborts=_pick(rng_of, "aborts", 0.0, 0.2, 0.6),
            dawdles=_pick(rng_of, "dawdles", 0.0, 0.05),
            leaves=_pick(rng_of, "leaves", 0.02, 0.2),
            haunts=_pick(rng_of, "haunts", 0.0, 0.5, 1.0),
            rest_ms=300.0 if count <= ids else 4_000.0,
            with_offsets=lasts and _pick(rng_of, "moves offsets", True, True, False),
        )
        for index in range(count)
    ]


def _with_eager_clients(
    rng_of: RngOf, topology: Topology, workload: WorkloadPlan
) -> tuple[Topology, WorkloadPlan]:
    """The same cluster with clients that begin each transaction at once, most often at transaction.version 2
    from beginning to end."""
    settings = _eager_settings(rng_of, topology.settings)
    if _pick(rng_of, "eager at one level", True, True, True, False):
        features = {name: to for name, to in topology.features.items() if name != METADATA_VERSION}
        topology = replace(topology, features=features)
        operators = tuple(
            (name, {habit: weights[habit] for habit in weights if habit != CHANGES_LEVEL}, rest_ms)
            for name, weights, rest_ms in workload.operators
        )
        workload = replace(workload, operators=operators)
    return (
        replace(topology, settings=settings),
        replace(workload, eager=_eager(rng_of), stalls=_stalls(rng_of)),
    )


def _eager_settings(rng_of: RngOf, settings: Mapping[str, str]) -> dict[str, str]:
    """Nothing but its own end ends a transaction, and nothing but that ends a producer's state. Leaders wait
    for the end of the transaction before for different times."""
    found = {key: value for key, value in settings.items() if key != PRODUCERS_EXPIRE}
    for key, *choices in (
        ("add.partitions.to.txn.retry.backoff.ms", None, None, "1", "5"),
        ("add.partitions.to.txn.retry.backoff.max.ms", None, "0", "0", "10"),
    ):
        value = _pick(rng_of, f"eager {key}", *choices)
        if value is not None:
            found[str(key)] = value
    return found


def _eager(rng_of: RngOf) -> tuple[EagerPlan, ...]:
    """Those that begin each transaction at once; each has a transactional id of its own."""
    partitions = _pick(rng_of, "ledger partitions", 1, 2, 3)
    lasts = _pick(rng_of, BRIEF_OFFSETS, *SETTINGS[BRIEF_OFFSETS]) != "1"
    return tuple(
        EagerPlan(
            f"eager{index}",
            f"eager{index}",
            partitions,
            pause_ms=20.0,
            records=_pick(rng_of, "records at once", 1, 3, 6),
            aborts=_pick(rng_of, "aborts at once", 0.2, 0.5),
            with_offsets=lasts and _pick(rng_of, "offsets at once", True, False, False),
            epochs_left=_pick(rng_of, f"epochs left {index}", None, 1, 4, 12),
            turns=_pick(rng_of, f"turns {index}", 5, 20, 1_000_000),
            leaves=_pick(rng_of, f"leaves at once {index}", 0.0, 0.05, 0.3),
        )
        for index in range(2)
    )


def _stalls(rng_of: RngOf) -> StallPlan | None:
    every_ms = _pick(rng_of, "connections stall", None, 1.0, 1.0, 3.0)
    if every_ms is None:
        return None
    return StallPlan(every_ms, longest_ms=_pick(rng_of, "stalls last", 10.0, 40.0))


def _preparers(rng_of: RngOf, pause: float) -> list[PreparerPlan]:
    """Those that write in two-phase commit."""
    partitions = _pick(rng_of, "ledger partitions", 1, 2, 3)
    return [
        PreparerPlan(
            f"preparer{index}",
            f"prepared{index}",
            partitions,
            pause_ms=pause * 2,
            records=_pick(rng_of, "records that are prepared", 1, 4, 10),
            waits_ms=_pick(rng_of, "prepared transactions wait", 500.0, 8_000.0),
            aborts=_pick(rng_of, "aborts of what is prepared", 0.1, 0.5),
        )
        for index in range(_pick(rng_of, "preparers", 0, 0, 1))
    ]


def _readers(rng_of: RngOf, topics: tuple[str, ...]) -> list[ReaderPlan]:
    """Those that fetch by sessions."""
    return [
        ReaderPlan(
            f"reader{index}",
            topics,
            pause_ms=_pick(rng_of, "readers pause", 100.0, 300.0),
            follows=_pick(rng_of, "readers follow", 0.0, 0.5, 0.9),
            leaves_out=_pick(rng_of, "readers leave out", 0.0, 0.1, 0.4),
            slips=_pick(rng_of, "readers slip", 0.0, 0.02, 0.1),
            partition_bytes=_pick(rng_of, "readers take", (1 << 20,), (1 << 20,), (1, 300)),
            wait_ms=_pick(rng_of, "readers wait", 50, 200, 500),
            min_bytes=_pick(rng_of, "readers want", 1, 1, 300),
        )
        for index in range(_pick(rng_of, "readers", 0, 0, 0, 1, 1, 2))
    ]


def _upgraders(rng_of: RngOf) -> list[tuple[str, Mapping[str, float], float]]:
    """Who takes an old cluster up, in most seeds; else its level stays, but for other operators."""
    weights = {"changes levels": 1.0, "switches ELR on": _pick(rng_of, "upgrades to ELR", 0.0, 0.1)}
    rest = _pick(rng_of, "upgrades", None, 150.0, 500.0, 1500.0)
    return [("upgrader", weights, rest)] if rest is not None else []


def _operators(rng_of: RngOf) -> list[tuple[str, Mapping[str, float], float]]:
    found: list[tuple[str, Mapping[str, float], float]] = []
    for index in range(_pick(rng_of, "operators", 0, 1, 1, 2)):
        weights = {}
        for habit in sorted(HABITS):
            rng = rng_of(f"operator{index} {habit}")
            if rng.random() < 0.5:
                weights[habit] = rng.uniform(0.1, 1.0) * OFTEN.get(habit, 1.0)
        found.append((f"operator{index}", weights, rng_of(f"rest {index}").choice([300.0, 1500.0])))
    return found
