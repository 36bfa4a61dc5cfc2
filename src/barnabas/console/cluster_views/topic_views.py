"""Topics and their partitions: leaders, replicas, offsets, sizes and rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.cli.commands.topics import replicas_of, state_of
from barnabas.cli.connection.many_brokers import gathered
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.offsets import EARLIEST, LATEST, OffsetAndTimestamp
from barnabas.console.cluster_views.cluster_health import NODE_MS
from barnabas.console.cluster_views.histories import Histories
from barnabas.console.cluster_views.parts import part
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.messages.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from barnabas.wire.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

PARTITIONS_MAX = 1_000
"""Partitions whose offsets and sizes are asked for one page."""
STATES = ("healthy", "under-replicated", "offline")


def topic_rows(
    connected: Connected, views: Sequence[TopicMetadata], histories: Histories
) -> list[dict[str, Any]]:
    """A row for each topic, with what its partitions hold; without that where they are too many."""
    every = [TopicPartition(v.name, i) for v in views for i in v.partitions]
    counted = every if len(every) <= PARTITIONS_MAX else []
    ends, starts = offsets_of(connected, views, counted)
    totals: dict[str, int] = {}
    held: dict[str, int] = {}
    for tp, end in ends.items():
        totals[tp.topic] = totals.get(tp.topic, 0) + end
        held[tp.topic] = held.get(tp.topic, 0) + end - starts.get(tp, end)
    histories.sample({f"topic {name} records": total for name, total in totals.items()})
    return [
        {
            "name": view.name,
            "internal": view.internal,
            "partitions": len(view.partitions),
            "replicas": replicas_of(view),
            "state": state_of(view),
            "held": held.get(view.name),
            "rates": histories.rates(f"topic {view.name} records"),
        }
        for view in views
    ]


def offsets_of(
    connected: Connected, views: Sequence[TopicMetadata], partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Ends and starts of the partitions that have a leader."""
    by_name = {view.name: view for view in views}
    led = [tp for tp in partitions if by_name[tp.topic].partitions[tp.partition].leader >= 0]
    if not led:
        return {}, {}
    nothing: dict[TopicPartition, OffsetAndTimestamp] = {}
    ends = part(lambda: connected.offsets(led, LATEST), nothing).value
    starts = part(lambda: connected.offsets(led, EARLIEST), nothing).value
    return (
        {tp: at.offset for tp, at in ends.items()},
        {tp: at.offset for tp, at in starts.items()},
    )


def partition_rows(
    connected: Connected, view: TopicMetadata, indexes: Sequence[int], histories: Histories
) -> list[dict[str, Any]]:
    """A row for each of these partitions of a topic."""
    partitions = [TopicPartition(view.name, index) for index in indexes]
    ends, starts = offsets_of(connected, [view], partitions)
    histories.sample({f"partition {tp} records": end for tp, end in ends.items()})
    sizes = _sizes(connected, view, indexes)
    none_known: dict[int, list[int]] = {}
    eligible = part(lambda: _eligible(connected, view.name, indexes), none_known).value
    rows = []
    for tp in partitions:
        known = view.partitions[tp.partition]
        rows.append(
            {
                "partition": tp.partition,
                "name": str(tp),
                "leader": known.leader,
                "epoch": known.leader_epoch,
                "preferred": not known.replicas or known.leader == known.replicas[0],
                "replicas": list(known.replicas),
                "isr": list(known.isr),
                "elr": eligible.get(tp.partition, []),
                "start": starts.get(tp),
                "end": ends.get(tp),
                "size": sizes.get((tp.partition, known.leader)),
                "rates": histories.rates(f"partition {tp} records"),
            }
        )
    return rows


def _sizes(
    connected: Connected, view: TopicMetadata, indexes: Sequence[int]
) -> dict[tuple[int, int], int]:
    """Bytes by partition and broker, of the brokers that answer."""
    request = DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=view.name, partitions=list(indexes))]
    )
    client = connected.client
    asked = {n: client.ask_node(n, request, timeout_ms=NODE_MS) for n in client.cluster.brokers}
    return {
        (one.partition_index, broker): one.partition_size
        for broker, answer in gathered(connected, asked).items()
        if not isinstance(answer, Exception)
        for directory in answer.results
        for topic in directory.topics
        for one in topic.partitions
        if not one.is_future_key
    }


def _eligible(connected: Connected, topic: str, indexes: Sequence[int]) -> dict[int, list[int]]:
    """Eligible leader replicas by partition (KIP-966)."""
    if not indexes:
        return {}
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=topic)],
        response_partition_limit=indexes[-1] - indexes[0] + 1,
        cursor=Cursor(topic_name=topic, partition_index=indexes[0]),
    )
    answer = connected.call(connected.client.ask_any(lambda: request))
    return {
        one.partition_index: list(one.eligible_leader_replicas or ())
        for found in answer.topics
        for one in found.partitions
    }
