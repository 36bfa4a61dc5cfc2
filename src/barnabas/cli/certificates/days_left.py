"""How many days the certificates of a cluster's listeners have left.

Brokers count those of all their listeners (`barnabas cluster metrics --broker`); of a controller that is no
broker the certificate is looked at by connecting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.client.admin import BrokerDescription
from barnabas.client.client import raise_for
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.security.certificate_watch import CERTIFICATES, DAY_S, WARNING_DAYS
from barnabas.types import METADATA_TOPIC, Endpoint
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)

ANSWER_MS = 5_000.0


class TimeLeft(NamedTuple):
    """The time that one listener's certificate has left; `seconds` are negative once it has ended."""

    node_id: int
    listener: str
    seconds: int

    @property
    def days(self) -> int:
        return self.seconds // DAY_S

    def __str__(self) -> str:
        return f"{self.listener} {self.days} d" if self.seconds >= 0 else f"{self.listener} ended"


def certificates_of(connected: Connected, brokers: Sequence[BrokerDescription]) -> list[TimeLeft]:
    """The certificates by node and listener; none of listeners without TLS, and of Apache Kafka's nodes."""
    found: list[TimeLeft] = []
    for broker in brokers:
        if not broker.fenced:
            found += _of_broker(connected, broker.node_id)
    if found:
        found += _of_controllers(connected, {broker.node_id for broker in brokers})
    return sorted(found)


def _of_broker(connected: Connected, node_id: int) -> list[TimeLeft]:
    request = DescribeClusterRequest(include_metrics=True)
    try:
        response = connected.call(connected.client.ask_node(node_id, request, timeout_ms=ANSWER_MS))
    except (ChannelError, KafkaError):
        return []  # it has just gone: the rest of the description says so
    return [
        TimeLeft(node_id, metric.name.removeprefix(CERTIFICATES), metric.value)
        for metric in response.metrics
        if metric.name.startswith(CERTIFICATES)
    ]


def _of_controllers(connected: Connected, brokers: set[int]) -> list[TimeLeft]:
    from barnabas.cli.certificates.presented import presented, seconds_left

    found = []
    for node_id, listener, at in controllers_of(connected):
        if node_id not in brokers:
            try:
                found.append(TimeLeft(node_id, listener, seconds_left(presented(at)[0])))
            except Failure:
                continue  # it is away, or without TLS
    return found


def controllers_of(connected: Connected) -> list[tuple[int, str, Endpoint]]:
    """(node, listener, where) of the quorum's members; none where it is away or there is none."""

    def request() -> DescribeQuorumRequest:
        topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])
        return DescribeQuorumRequest(topics=[topic])

    def check(response: Any) -> None:
        raise_for(response.error_code, response.error_message)

    try:
        asked = connected.client.ask_any(request, check, timeout_ms=ANSWER_MS)
        described = connected.call(asked)
    except (ChannelError, KafkaError):
        return []
    return [
        (node.node_id, listener.name, Endpoint(listener.host, listener.port))
        for node in described.nodes
        for listener in node.listeners
    ]


def say_what_ends(found: Sequence[TimeLeft]) -> None:
    """One line on standard error for each certificate in its last month."""
    for left in found:
        if left.days < WARNING_DAYS:
            what = f"ends in {left.days} days" if left.seconds >= 0 else "has ended"
            say(f"node {left.node_id}: the certificate of {left.listener} {what}", err=True)
