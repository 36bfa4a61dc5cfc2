"""The events of ZooKeeper mode's controllers, asked of every broker: each of them may have been the
controller.

Znodes keep no history, so events are what brokers remember (`barnabas.zookeeper.states`): those of a process
that has ended are gone. The states of partitions and replicas are the present controller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.metadata.views.cluster_events import ClusterEvent
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_cluster_response import DescribeClusterResponse

REQUEST_TIMEOUT_MS = 5_000.0
NO_OFFSET = -1
"""The offset of an event that is no record of a metadata log."""


class ControllerEvents:
    """Asks the brokers for what their controllers did and refused since it asked last."""

    def __init__(self, connected: Connected) -> None:
        self._connected = connected
        self._last: dict[int, tuple[int, int]] = {}
        """Numbers of the last event and the last refusal read, by broker."""
        self.silent: list[int] = []

    def read(self) -> list[ClusterEvent]:
        """In order of their dates."""
        self.silent = []
        found: list[ClusterEvent] = []
        brokers = [b.node_id for b in self._connected.describe_cluster().brokers if not b.fenced]
        for broker in brokers:
            event, refusal = self._last.get(broker, (-1, -1))
            response = self._ask(broker, events_after=event, refusals_after=refusal)
            if response is None:
                self.silent.append(broker)
                continue
            for step in response.events:
                event = step.number
                reported = (step.kind, step.subject, step.change, step.reason)
                found.append(ClusterEvent(NO_OFFSET, step.at_ms, *reported))
            for note in response.refusals:
                refusal = note.number
                said = ("refusal", note.subject, note.code, note.reason)
                found.append(ClusterEvent(NO_OFFSET, note.at_ms, *said))
            self._last[broker] = event, refusal
        return sorted(found, key=lambda event: event.at_ms)

    def _ask(self, broker: int, **asked: Any) -> DescribeClusterResponse | None:
        client = self._connected.client
        sent = client.ask_node(
            broker, DescribeClusterRequest(**asked), timeout_ms=REQUEST_TIMEOUT_MS
        )
        try:
            response: DescribeClusterResponse = self._connected.call(sent)
        except (ChannelError, KafkaError):
            return None
        return response


class ReportedState(NamedTuple):
    """A state by Kafka's name, why, and since when (milliseconds since 1970; -1: not known)."""

    state: str
    reason: str
    at_ms: int


def states_of(
    connected: Connected, topics: Iterable[str]
) -> Mapping[tuple[str, int, int], ReportedState]:
    """The states by topic, index and broker (-1: the partition's own), as the controller says; nothing
    where that is another program's, or has just been elected."""
    controller = connected.describe_cluster().controller_id
    request = DescribeClusterRequest(states_of=list(topics))
    sent = connected.client.ask_node(controller, request, timeout_ms=REQUEST_TIMEOUT_MS)
    try:
        response: DescribeClusterResponse = connected.call(sent)
    except (ChannelError, KafkaError):
        return {}
    return {
        (one.topic, one.partition, one.replica): ReportedState(one.state, one.reason, one.at_ms)
        for one in response.states
    }
