"""Asks the leaders of partitions what members of a share group have in hand, and how often records were
delivered. No request of Kafka's has that, so that its brokers answer nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote

from barnabas.cli.connection.many_brokers import ask_brokers
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse

KAFKA = "kafka.server:type=SharePartitionMetrics,"
OURS = "barnabas.share:type=SharePartitions,"


@dataclass(slots=True)
class ShareDeliveries:
    """One partition of a share group, at its leader."""

    in_flight: int = 0
    """Offsets from the start to the last that was delivered."""
    acquired: int = 0
    """Records that members hold."""
    deliveries: dict[str, int] = field(default_factory=dict)
    """Records that are not acknowledged yet, by how often they were delivered."""


def deliveries_of(
    connected: Connected, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ShareDeliveries]:
    """Ask the leaders of `partitions`. They know those that a member fetches at present, and nothing of the
    others."""
    cluster = connected.client.cluster
    leaders = {leader for tp in partitions if (leader := cluster.leader(tp)) is not None}
    if not leaders:
        return {}
    answers = ask_brokers(
        connected, lambda: DescribeClusterRequest(include_metrics=True), sorted(leaders)
    )
    found: dict[TopicPartition, ShareDeliveries] = {}
    for answer in answers.values():
        if isinstance(answer, DescribeClusterResponse):
            for metric in answer.metrics:
                if metric.name.startswith((KAFKA, OURS)):
                    _take(found, group_id, metric.name, metric.value)
    return found


def _take(
    found: dict[TopicPartition, ShareDeliveries], group_id: str, name: str, value: int
) -> None:
    tags = dict(tag.split("=", 1) for tag in name.partition(":")[2].split(","))
    if unquote(tags["group"]) != group_id:
        return
    own = found.setdefault(TopicPartition(tags["topic"], int(tags["partition"])), ShareDeliveries())
    if tags["name"] == "InFlightMessageCount":
        own.in_flight = value
    elif tags["name"] == "Acquired":
        own.acquired = value
    elif tags["name"] == "Delivered":
        own.deliveries[tags["deliveries"]] = value
