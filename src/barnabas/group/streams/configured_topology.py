"""The topology with the topics that exist: how many tasks each subtopology has, and which internal topics
are missing.

Partition counts of repartition topics follow from those of the topics upstream and from copartition
groups; changelogs have as many partitions as their subtopology has tasks.

Source: ``InternalTopicManager``, ``RepartitionTopics``, ``CopartitionedTopicsEnforcer`` and
``ChangelogTopics`` of Apache Kafka 4.4; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush

from barnabas.config.topic_names import check_topic_name
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.streams.member import TaskId
from barnabas.group.streams.topology import (
    StreamsTopology,
    Subtopology,
    TopicInfo,
    invalid_topology,
)
from barnabas.limits import STREAMS_TASKS_MAX

SHOWN_MAX = 3
"""Names that a message lists."""


class Status(IntEnum):
    """The codes of what an answer to a heartbeat says about the group."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic with the number of its partitions."""

    name: str
    partitions: int
    replication_factor: int
    """0: the cluster's default."""
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology whose partition counts are known."""

    task_count: int
    sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: Mapping[str, InternalTopic]
    changelogs: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    def source_names(self) -> list[str]:
        """The topics that its tasks read."""
        return sorted({*self.sources, *self.repartition_sources})


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """`problem` is why tasks cannot be assigned yet, with the sentence for users."""

    topology: StreamsTopology
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    """The subtopologies by id, sorted; none where partition counts cannot be known."""
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)
    """Internal topics that are to be created."""
    problem: tuple[Status, str] | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    def has_task(self, task: TaskId) -> bool:
        part = self.subtopologies.get(task.subtopology)
        return part is not None and 0 <= task.partition < part.task_count


class _ProblemError(Exception):
    """The topics that exist do not fit the topology."""

    def __init__(self, status: Status, why: str) -> None:
        super().__init__(why)
        self.problem = status, why


def configure(topology: StreamsTopology, cluster: ClusterTopics) -> ConfiguredTopology:
    """Raises STREAMS_INVALID_TOPOLOGY where no topics could fit."""
    parts = topology.subtopologies
    try:
        _check_sources(parts, cluster)
        counts = _Counts(cluster)
        counts.decided.update(_repartition_counts(parts, counts.of))
        _copartition(parts, counts)
        task_counts = [_task_count(part, counts.of) for part in parts]
        _check_tasks(sum(task_counts))
        for part, tasks in zip(parts, task_counts):
            counts.decided.update((topic.name, tasks) for topic in part.changelogs)
        configured = {part.subtopology_id: _configured(part, counts) for part in parts}
        missing = _missing(topology, configured, cluster)
    except _ProblemError as error:
        return ConfiguredTopology(topology, problem=error.problem)
    problem = None
    if missing:
        why = f"Internal topics are missing: {_listed(sorted(missing))}"
        problem = Status.MISSING_INTERNAL_TOPICS, why
    return ConfiguredTopology(topology, configured, missing, problem)


class _Counts:
    """Numbers of partitions: of topics that exist, and of those that are decided on."""

    def __init__(self, cluster: ClusterTopics) -> None:
        self._cluster = cluster
        self.decided: dict[str, int] = {}

    def of(self, name: str) -> int | None:
        topic = self._cluster.named(name)
        return self.decided.get(name) if topic is None else len(topic)

    def known(self, name: str) -> int:
        count = self.of(name)
        if count is None:
            raise invalid_topology(f"Number of partitions is not set for topic: {name}")
        return count


def _check_sources(parts: Collection[Subtopology], cluster: ClusterTopics) -> None:
    names = {name for part in parts for name in part.sources}
    missing = sorted(name for name in names if cluster.named(name) is None)
    if missing:
        raise _ProblemError(
            Status.MISSING_SOURCE_TOPICS, f"Source topics {_listed(missing)} are missing."
        )


def _repartition_counts(
    parts: Collection[Subtopology], count_of: Callable[[str], int | None]
) -> dict[str, int]:
    """A repartition topic has the partitions that the application asks for, else as many as the subtopology
    that writes to it has tasks."""
    counts = {
        topic.name: topic.partitions
        for part in parts
        for topic in part.repartition_sources
        if topic.partitions
    }
    _spread_counts(parts, counts, count_of)
    for part in parts:
        if any(topic.name not in counts for topic in part.repartition_sources):
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics, because a"
                " repartition source topic is never used as a sink topic."
            )
    return counts


def _spread_counts(
    parts: Collection[Subtopology],
    counts: dict[str, int],
    count_of: Callable[[str], int | None],
) -> None:
    """Add the partition counts of all repartition sinks. Each subtopology is taken once, when one of its
    sources has a known count. The order is that of repeated passes over all subtopologies, as in Apache
    Kafka."""
    by_index = list(parts)
    readers: dict[str, list[int]] = {}
    for index, part in enumerate(by_index):
        for topic in part.repartition_sources:
            readers.setdefault(topic.name, []).append(index)

    def known(part: Subtopology) -> list[int]:
        found = [counts.get(topic.name) for topic in part.repartition_sources]
        found += [count_of(name) for name in part.sources]
        return [count for count in found if count is not None]

    due = [(0, index) for index, part in enumerate(by_index) if known(part)]
    seen = {index for _, index in due}
    while due:
        turn, index = heappop(due)
        open_sinks = [name for name in by_index[index].repartition_sinks if name not in counts]
        if not open_sinks:
            continue
        counts.update(dict.fromkeys(open_sinks, max(known(by_index[index]))))
        for name in open_sinks:
            for reader in readers.get(name, ()):
                if reader not in seen:
                    seen.add(reader)
                    heappush(due, (turn if reader > index else turn + 1, reader))
    if any(name not in counts for part in by_index for name in part.repartition_sinks):
        raise invalid_topology(
            "Failed to compute number of partitions for all repartition topics. There may be loops"
            " in the topology that cannot be resolved."
        )


def _copartition(parts: Collection[Subtopology], counts: _Counts) -> None:
    """Give the topics of each copartition group equally many partitions, where they may be chosen."""
    asked = {topic.name: topic.partitions for part in parts for topic in part.repartition_sources}
    for part in parts:
        for names in part.copartitioned():
            if names:
                counts.decided.update(_together(names, asked, counts))


def _together(names: Collection[str], asked: Mapping[str, int], counts: _Counts) -> dict[str, int]:
    found = {name: counts.known(name) for name in sorted(names)}
    chosen = {name: count for name, count in found.items() if name in asked}
    fixed = {name: count for name, count in chosen.items() if asked[name]}
    others = {name: count for name, count in found.items() if name not in asked}
    deciding = others or fixed or {"": max(chosen.values())}
    if len(set(deciding.values())) > 1:
        text = ", ".join(f"{name}={count}" for name, count in sorted(deciding.items()))
        raise _ProblemError(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{text}}}]",
        )
    count = next(iter(deciding.values()))
    for name, present in fixed.items():
        if present != count:
            raise _ProblemError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{present}] of repartition topic [{name}] doesn't match number"
                f" of partitions [{count}] of the source topic.",
            )
    return dict.fromkeys(chosen, count)


def _task_count(part: Subtopology, count_of: Callable[[str], int | None]) -> int:
    counts = [count for count in map(count_of, part.source_names()) if count is not None]
    if not counts:
        raise invalid_topology(f"No source topics found for subtopology {part.subtopology_id}")
    return max(counts)


def _check_tasks(count: int) -> None:
    if count > STREAMS_TASKS_MAX:
        raise _ProblemError(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"The topology has {count} tasks, but a streams group may have {STREAMS_TASKS_MAX} at most.",
        )


def _configured(part: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        _task_count(part, counts.of),
        part.sources,
        part.repartition_sinks,
        {topic.name: _internal(topic, counts) for topic in part.repartition_sources},
        {topic.name: _internal(topic, counts) for topic in part.changelogs},
    )


def _internal(topic: TopicInfo, counts: _Counts) -> InternalTopic:
    why = check_topic_name(topic.name)
    if why is not None:
        raise invalid_topology(why)
    partitions = topic.partitions or counts.decided[topic.name]
    if partitions < 1:
        raise invalid_topology(f"Topic {topic.name} must have at least 1 partition.")
    return InternalTopic(topic.name, partitions, topic.replication_factor, topic.configs)


def _missing(
    topology: StreamsTopology,
    configured: Mapping[str, ConfiguredSubtopology],
    cluster: ClusterTopics,
) -> dict[str, InternalTopic]:
    wanted: dict[str, InternalTopic] = {}
    for part in configured.values():
        wanted.update(part.repartition_sources)
        wanted.update(part.changelogs)
    for name in sorted(topology.required):
        topic = cluster.named(name)
        expected = None if topic is None else wanted.pop(name, None)
        if topic is not None and expected is not None and len(topic) != expected.partitions:
            raise _ProblemError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected"
                f" {expected.partitions}, found {len(topic)}",
            )
    return wanted


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN_MAX])
    more = len(names) - SHOWN_MAX
    return f"{shown} and {more} additional topics" if more > 0 else shown
