"""Changes the set of partitions with state at the share coordinator.

A partition goes from *initializing* to *initialized* when the share coordinator has written its first
state; only then is it assigned. A topic whose states are deleted is *deleting* until they are gone.

Source: ``GroupMetadataManager.subscribedTopicsChangeMap`` and its neighbours of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.share.share_group import ShareGroup, StateTopic, StateTopics
from barnabas.types import Uuid

Partitions = Mapping[Uuid, frozenset[int]]
Offsets = Mapping[Uuid, Mapping[int, int]]
"""Start offsets by topic id and partition."""


def missing_of(
    group: ShareGroup,
    names: Iterable[str],
    cluster: ClusterTopics,
    now_ms: float,
    retry_ms: int,
) -> dict[Uuid, StateTopic]:
    """The partitions of subscribed topics to initialize: those without state that are not being
    initialized. A request that is older than `retry_ms` is repeated."""
    states, missing = group.state_topics, dict[Uuid, StateTopic]()
    for name in sorted(names):
        topic = cluster.named(name)
        if topic is None:
            continue
        known: frozenset[int] = frozenset()
        if topic.id in states.initialized:
            known = states.initialized[topic.id].partitions
        since_ms = group.initializing_since.get(topic.id)
        if topic.id in states.initializing and since_ms is not None:
            if now_ms - since_ms < retry_ms:
                known = known | states.initializing[topic.id].partitions
        lacking = frozenset(range(len(topic))) - known
        if lacking:
            missing[topic.id] = StateTopic(name, lacking)
    return missing


def with_initializing(states: StateTopics, added: Mapping[Uuid, StateTopic]) -> StateTopics:
    """The states after the initialization of `added` was requested, which ends a deletion of its
    topics."""
    return replace(
        states,
        initializing=_union(states.initializing, added),
        deleting={t: name for t, name in states.deleting.items() if t not in added},
    )


def with_initialized(states: StateTopics, done: Partitions, cluster: ClusterTopics) -> StateTopics:
    """The states after the share coordinator has initialized `done`."""
    named = {
        topic_id: StateTopic(cluster.name_of(topic_id) or "<UNKNOWN>", partitions)
        for topic_id, partitions in done.items()
    }
    return replace(
        states,
        initializing=_without(states.initializing, done),
        initialized=_union(states.initialized, named),
    )


def without_initializing(states: StateTopics, failed: Partitions) -> StateTopics:
    """The states after the share coordinator failed to initialize `failed`."""
    return replace(states, initializing=_without(states.initializing, failed))


def without_topics(states: StateTopics, topic_ids: Collection[Uuid]) -> StateTopics:
    """The states without topics that no longer exist."""
    return StateTopics(
        {t: topic for t, topic in states.initializing.items() if t not in topic_ids},
        {t: topic for t, topic in states.initialized.items() if t not in topic_ids},
        {t: name for t, name in states.deleting.items() if t not in topic_ids},
    )


def lacks_assignment(group: ShareGroup, cluster: ClusterTopics) -> bool:
    """Whether partitions were initialized or deleted after the target assignment was computed. A
    topic that no longer exists is assigned to no member."""
    topics = group.topics
    if group.is_empty or not topics:
        return False
    assigned: dict[Uuid, set[int]] = {}
    for _, target in group.targets.items():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    return any(
        topic.name in topics
        and cluster.id_of(topic.name) == topic_id
        and assigned.get(topic_id, set()) != set(topic.partitions)
        for topic_id, topic in group.state_topics.initialized.items()
    )


def _union(
    known: Mapping[Uuid, StateTopic], added: Mapping[Uuid, StateTopic]
) -> dict[Uuid, StateTopic]:
    union = dict(known)
    for topic_id, topic in added.items():
        before = known[topic_id].partitions if topic_id in known else frozenset()
        union[topic_id] = StateTopic(topic.name, before | topic.partitions)
    return union


def _without(known: Mapping[Uuid, StateTopic], done: Partitions) -> dict[Uuid, StateTopic]:
    left = {
        topic_id: topic._replace(partitions=topic.partitions - done.get(topic_id, frozenset()))
        for topic_id, topic in known.items()
    }
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
