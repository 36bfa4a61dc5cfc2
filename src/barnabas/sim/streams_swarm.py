"""Streams groups of a seed: the same cluster and clients, with members of streams groups and their topics.

Every draw has a generator of its own, so that all others of the seed stay as they are. Tombstones and offsets
last: what a group forgets stays forgotten, and an empty group stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from barnabas.metadata.features import METADATA_VERSION
from barnabas.ports import Rng
from barnabas.sim.faults import KINDS, Kind
from barnabas.sim.faults.transactions import ambush_streams
from barnabas.sim.share_swarm import CHANGES_LEVELS
from barnabas.sim.swarm import BRIEF_OFFSETS, Swarm
from barnabas.sim.workload.streams.plan import StreamsMemberPlan, StreamsPlan
from barnabas.wire.messages import streams_group_heartbeat_request as asked

T = TypeVar("T")
RngOf = Callable[[str], Rng]
STREAMS_KINDS: Mapping[str, Kind] = {**KINDS, "ambush-streams": ambush_streams}
"""The kinds of fault of a seed with streams groups."""
TOMBSTONES = "log.cleaner.delete.retention.ms"
SESSION_MS = 3_000
LEFT_OUT = (CHANGES_LEVELS, "remakes the groups' topic")
"""The habits of operators that may switch streams groups off, or let their epochs begin again."""
SHAPES = ("stateless", "stateful", "repartitioned", "widened", "copartitioned")


class Shape(NamedTuple):
    """A topology, the partitions of its internal topics, and the tasks of its subtopologies."""

    topology: asked.Topology
    internal: Mapping[str, int]
    tasks: Mapping[str, int]


def with_streams_groups(rng_of: RngOf, drawn: Swarm) -> Swarm:
    """The swarm, with streams groups; the cluster begins with the newest levels."""

    def pick(name: str, *choices: T) -> T:
        return rng_of(f"streams {name}").choice(choices)

    sources = {"streamed": pick("partitions", 1, 2, 3, 6), "streamed-too": pick("more", 1, 2, 4)}
    groups = [f"streamers{index}" for index in range(pick("groups", 1, 1, 2))]
    shapes = {
        group: shape_of(pick(f"shape of {group}", *SHAPES), group, sources) for group in groups
    }
    given = drawn.topology.settings
    settings = {key: v for key, v in given.items() if key not in (TOMBSTONES, BRIEF_OFFSETS)}
    topology = replace(
        drawn.topology,
        settings={**settings, **_settings(rng_of)},
        features={k: v for k, v in drawn.topology.features.items() if k != METADATA_VERSION},
    )
    streams = StreamsPlan(
        sources,
        tuple(_members(rng_of, groups)),
        {group: shape.topology for group, shape in shapes.items()},
        {name: count for shape in shapes.values() for name, count in shape.internal.items()},
        {group: shape.tasks for group, shape in shapes.items()},
        SESSION_MS,
    )
    operators = tuple(
        (name, {habit: w for habit, w in weights.items() if habit not in LEFT_OUT}, rest_ms)
        for name, weights, rest_ms in drawn.workload.operators
    )
    workload = replace(drawn.workload, operators=operators, streams=streams)
    ambushes = pick("ambushes", 0.0, 0.5, 1.0)
    faults = {**drawn.faults, **({"ambush-streams": ambushes} if ambushes else {})}
    return replace(drawn, topology=topology, workload=workload, faults=faults)


def shape_of(name: str, group: str, sources: Mapping[str, int]) -> Shape:
    """The topology of that shape, for a group that reads `sources`."""
    (first, count), (second, more) = sorted(sources.items())
    store, between = f"{group}-store-changelog", f"{group}-keyed-repartition"
    if name == "stateless":
        return Shape(_topology(_part("0", [first])), {}, {"0": count})
    if name == "stateful":
        return Shape(
            _topology(_part("0", [first], changelogs=[store])), {store: count}, {"0": count}
        )
    writes = _part("0", [first], sinks=[between])
    if name == "repartitioned":
        reads = _part("1", changelogs=[store], repartition={between: 0})
        wanted = {between: count, store: count}
        return Shape(_topology(writes, reads), wanted, {"0": count, "1": count})
    if name == "widened":
        reads = _part("1", changelogs=[store], repartition={between: count + 2})
        wanted = {between: count + 2, store: count + 2}
        return Shape(_topology(writes, reads), wanted, {"0": count, "1": count + 2})
    reads = _part("1", [second], changelogs=[store], repartition={between: 0}, joined=True)
    return Shape(_topology(writes, reads), {between: more, store: more}, {"0": count, "1": more})


def _topology(*parts: asked.Subtopology) -> asked.Topology:
    return asked.Topology(epoch=0, subtopologies=list(parts))


def _part(
    part_id: str,
    sources: list[str] | None = None,
    *,
    changelogs: list[str] | None = None,
    sinks: list[str] | None = None,
    repartition: Mapping[str, int] | None = None,
    joined: bool = False,
) -> asked.Subtopology:
    """A subtopology; where it is `joined` its source and its repartition source are copartitioned."""
    together = asked.CopartitionGroup(source_topics=[0], repartition_source_topics=[0])
    return asked.Subtopology(
        subtopology_id=part_id,
        source_topics=sources or [],
        state_changelog_topics=[asked.TopicInfo(name=name) for name in changelogs or ()],
        repartition_sink_topics=sinks or [],
        repartition_source_topics=[
            asked.TopicInfo(name=name, partitions=count)
            for name, count in (repartition or {}).items()
        ],
        copartition_groups=[together] if joined else [],
    )


def _settings(rng_of: RngOf) -> dict[str, str]:
    """Short sessions, and assignments that follow each other soon or late."""
    found = {
        "group.streams.heartbeat.interval.ms": "300",
        "group.streams.min.heartbeat.interval.ms": "300",
        "group.streams.session.timeout.ms": str(SESSION_MS),
        "group.streams.min.session.timeout.ms": str(SESSION_MS),
    }
    for key, *choices in (
        ("group.streams.assignment.interval.ms", None, "0", "0", "3000"),
        ("group.streams.initial.rebalance.delay.ms", "0", "500", "3000"),
        ("group.streams.num.standby.replicas", None, "1", "2"),
    ):
        value = rng_of(f"streams {key}").choice(choices)
        if value is not None:
            found[str(key)] = value
    return found


def _members(rng_of: RngOf, groups: list[str]) -> list[StreamsMemberPlan]:
    def pick(name: str, *choices: T) -> T:
        return rng_of(f"streams {name}").choice(choices)

    found: list[StreamsMemberPlan] = []
    for index in range(pick("members", 2, 3, 4, 6)):
        group = groups[index % len(groups)]
        static = pick(f"static {index}", False, False, True)
        found.append(
            StreamsMemberPlan(
                f"streamer{index}",
                group,
                f"{group}-process{pick(f'process {index}', 0, index, index)}",
                f"{group}-instance{index}" if static else None,
                reconciles_ms=pick(f"reconciles {index}", 1.0, 50.0, 1_000.0),
                reports=pick(f"reports {index}", 0.0, 0.2),
                has_endpoint=pick(f"endpoint {index}", False, True),
                repeats=pick(f"repeats {index}", 0.0, 0.1),
                leaves=pick(f"leaves {index}", 0.0, 0.02, 0.06),
                vanishes=pick(f"vanishes {index}", 0.0, 0.01, 0.03),
            )
        )
    return found
