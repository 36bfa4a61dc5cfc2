"""The topology of a Kafka Streams application, as its members send it and as the group's record keeps it.

Request and record have the same fields; one function reads both, so that they compare equal.

Source: ``StreamsTopology`` and ``StreamsCoordinatorRecordHelpers`` of Apache Kafka 4.4; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from barnabas.wire.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An internal topic as the application wants it."""

    name: str
    partitions: int
    """0: the coordinator decides."""
    replication_factor: int
    """0: the cluster's default."""
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics that have equally many partitions: positions in the subtopology's lists."""

    sources: tuple[int, ...]
    source_regexes: tuple[int, ...]
    repartition_sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the topology whose nodes are connected."""

    subtopology_id: str
    sources: tuple[str, ...]
    source_regexes: tuple[str, ...]
    changelogs: tuple[TopicInfo, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[TopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def source_names(self) -> list[str]:
        """The topics that its tasks read."""
        return [*self.sources, *(topic.name for topic in self.repartition_sources)]

    def copartitioned(self) -> Iterator[set[str]]:
        """The names of the topics in each copartition group. Raises STREAMS_INVALID_TOPOLOGY where a position
        is in none of the lists."""
        repartition = [topic.name for topic in self.repartition_sources]
        for group in self.copartition_groups:
            names = {_at(self.sources, position) for position in group.sources}
            yield names | {_at(repartition, position) for position in group.repartition_sources}


@dataclass(frozen=True)
class StreamsTopology:
    """All subtopologies, sorted by id."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = field(default=())

    @cached_property
    def by_source(self) -> dict[str, Subtopology]:
        """The subtopology that reads each topic."""
        return {name: part for part in self.subtopologies for name in part.source_names()}

    @cached_property
    def required(self) -> frozenset[str]:
        """Every topic whose metadata matter: sources, repartition sources and changelogs."""
        names = set(self.by_source)
        for part in self.subtopologies:
            names.update(topic.name for topic in part.changelogs)
        return frozenset(names)


def topology_of(message: Any) -> StreamsTopology:
    """The topology in a heartbeat or in a record. Raises STREAMS_INVALID_TOPOLOGY where two subtopologies
    have one id, or the epoch is negative."""
    parts = {part.subtopology_id: _subtopology_of(part) for part in message.subtopologies}
    if len(parts) < len(message.subtopologies):
        raise invalid_topology("Subtopology ids must be unique.")
    if message.epoch < 0:
        raise invalid_topology("Topology epoch must be non-negative.")
    return StreamsTopology(message.epoch, tuple(parts[part_id] for part_id in sorted(parts)))


def invalid_topology(why: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, why)


def _subtopology_of(message: Any) -> Subtopology:
    return Subtopology(
        message.subtopology_id,
        tuple(message.source_topics),
        tuple(message.source_topic_regex),
        tuple(map(_topic_of, message.state_changelog_topics)),
        tuple(message.repartition_sink_topics),
        tuple(map(_topic_of, message.repartition_source_topics)),
        tuple(
            CopartitionGroup(
                tuple(group.source_topics),
                tuple(group.source_topic_regex),
                tuple(group.repartition_source_topics),
            )
            for group in message.copartition_groups
        ),
    )


def _topic_of(message: Any) -> TopicInfo:
    configs = tuple((config.key, config.value) for config in message.topic_configs)
    return TopicInfo(message.name, message.partitions, message.replication_factor, configs)


def _at(names: tuple[str, ...] | list[str], position: int) -> str:
    if not 0 <= position < len(names):
        raise invalid_topology(f"Copartition group names topic {position} of {len(names)}.")
    return names[position]
