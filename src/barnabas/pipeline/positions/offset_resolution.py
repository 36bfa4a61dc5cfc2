"""From options to offsets: which partitions there are, where a query begins and ends in them.

Asks the cluster; decides nothing about triggers or tasks. Every partition that a place does not
mention is an error, as in Spark's connector: a query must not begin somewhere by accident.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from barnabas.pipeline.cluster_client import ClusterClient, offsets_of_all
from barnabas.pipeline.errors import ClusterUnreachableError, OptionError, UnknownPartitionError
from barnabas.pipeline.offsets import EARLIEST, LATEST, PartitionOffsets
from barnabas.pipeline.options import (
    AtOffsets,
    AtTimestamps,
    Everywhere,
    Place,
    SourceOptions,
    Subscription,
)
from barnabas.pipeline.patience import Patience
from barnabas.types import TopicPartition

KNOWN_MS = 3_000.0
"""How long a topic just created may take to be in every broker's metadata."""


def partitions_of(cluster: ClusterClient, subscription: Subscription) -> list[TopicPartition]:
    """All partitions that the subscription names now, in order. Missing topics give none."""
    if subscription.partitions:
        names = {partition.topic for partition in subscription.partitions}
        topics = cluster.topics(names)
        return [
            partition
            for partition in subscription.partitions
            if partition.topic in topics
            and partition.partition in topics[partition.topic].partitions
        ]
    if subscription.pattern is not None:
        pattern = re.compile(subscription.pattern)
        topics = {
            name: topic
            for name, topic in cluster.topics().items()
            if pattern.fullmatch(name) and not topic.internal
        }
    else:
        topics = cluster.topics(subscription.topics)
    return [
        TopicPartition(name, partition)
        for name in sorted(topics)
        for partition in topics[name].partitions
    ]


def partitions_at_start(cluster: ClusterClient, subscription: Subscription) -> list[TopicPartition]:
    """The partitions of `partitions_of`, for a query that begins: every topic and partition that is named
    must be there. Raises `OptionError`; one just created has a moment to be known everywhere."""
    patience = Patience(min(cluster.patience_ms, KNOWN_MS))
    while True:
        found = partitions_of(cluster, subscription)
        missing = sorted(set(subscription.topics) - {partition.topic for partition in found})
        missing += [
            str(partition) for partition in subscription.partitions if partition not in found
        ]
        if not missing:
            return found
        try:
            patience.wait(f"{missing[0]} does not exist")
        except ClusterUnreachableError as error:
            raise OptionError(f"{missing[0]} does not exist") from error


def offsets_at(
    cluster: ClusterClient,
    place: Place,
    partitions: Collection[TopicPartition],
    options: SourceOptions,
    *,
    starting: bool,
) -> PartitionOffsets:
    """The offset of `place` in each of `partitions`, of all of them: one that is left out would not be
    read, or from somewhere else. Raises `OptionError`."""
    isolation = options.fetch.isolation
    match place:
        case Everywhere(timestamp):
            wanted = dict.fromkeys(partitions, timestamp)
        case AtTimestamps(timestamps):
            check_covers(timestamps, partitions, "timestamps")
            wanted = {partition: timestamps[partition] for partition in partitions}
        case AtOffsets(offsets):
            check_covers(offsets, partitions, "offsets")
            wanted = {
                partition: offsets[partition] for partition in partitions if offsets[partition] < 0
            }
    found = offsets_known(cluster, wanted, isolation)
    resolved: PartitionOffsets = {}
    for partition in partitions:
        if isinstance(place, AtOffsets) and place.offsets[partition] >= 0:
            resolved[partition] = place.offsets[partition]
        else:
            resolved[partition] = found[partition]
    absent = [partition for partition in partitions if resolved[partition] < 0]
    if absent:
        if starting and options.without_timestamp == "error":
            raise OptionError(
                f"{absent[0]} has no record at or after the starting timestamp; set"
                " startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        resolved |= offsets_known(cluster, dict.fromkeys(absent, LATEST), isolation)
    return resolved


def offsets_known(
    cluster: ClusterClient, wanted: PartitionOffsets, isolation: int
) -> PartitionOffsets:
    """The offset at each time that is wanted. Its leader may not have heard yet of a topic that
    was just created. Raises `OptionError`."""
    patience_ms = min(cluster.patience_ms, KNOWN_MS)
    try:
        return offsets_of_all(cluster, wanted, isolation=isolation, patience_ms=patience_ms)
    except UnknownPartitionError as error:
        raise OptionError(str(error)) from error


def check_covers(
    given: PartitionOffsets, partitions: Collection[TopicPartition], what: str
) -> None:
    missing = sorted(set(partitions) - given.keys())
    foreign = sorted(given.keys() - set(partitions))
    if missing:
        raise OptionError(
            f"{what} are needed for every partition: {missing[0]} is missing"
            " (-2 means earliest, -1 latest)"
        )
    if foreign:
        raise OptionError(f"{what} name {foreign[0]}, which is not subscribed or does not exist")


def earliest(
    cluster: ClusterClient, partitions: Collection[TopicPartition], options: SourceOptions
) -> PartitionOffsets:
    found = cluster.list_offsets(
        dict.fromkeys(partitions, EARLIEST), isolation=options.fetch.isolation
    )
    return {partition: at.offset for partition, at in found.items()}


def latest(
    cluster: ClusterClient, partitions: Collection[TopicPartition], options: SourceOptions
) -> PartitionOffsets:
    found = cluster.list_offsets(
        dict.fromkeys(partitions, LATEST), isolation=options.fetch.isolation
    )
    return {partition: at.offset for partition, at in found.items()}
