"""Measures how long the cluster takes to elect a new leader after the old one was killed.

A thread polls the metadata of a surviving broker, as clients see them; the stream of events is not disturbed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.patience import Patience
from barnabas.security.client_security import OPEN, ClientSecurity
from barnabas.types import METADATA_TOPIC, Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.describe_quorum_response import DescribeQuorumResponse
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.metadata_response import MetadataResponse, MetadataResponsePartition

POLL_S = 0.01
NEW_LEADER_S = 60.0
CONTROLLER_S = 60.0
REQUEST_TIMEOUT_MS = 500.0


def partitions_of(cluster: ClusterClient, topic: str) -> list[MetadataResponsePartition]:
    """The partitions of `topic` as a broker sees them now."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    response = cluster.call_any(request, MetadataResponse)
    return [partition for topic in response.topics for partition in topic.partitions]


def leader_of(cluster: ClusterClient, topic: str, partition: int) -> int:
    """Node id of the leader; -1 if there is none."""
    for found in partitions_of(cluster, topic):
        if found.partition_index == partition:
            return found.leader_id
    return -1


def leads_the_quorum(controller: Endpoint, security: ClientSecurity = OPEN) -> bool:
    """Whether the node with this controller listener is the active controller: only that one answers
    DescribeQuorum."""
    request = DescribeQuorumRequest(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])]
    )
    node = ClusterClient([controller], "barnabas-demo", security=security)
    try:
        response = node.call(
            controller, request, DescribeQuorumResponse, timeout_ms=REQUEST_TIMEOUT_MS
        )
    except ChannelError:
        return False  # it may not listen yet
    finally:
        node.close()
    answers = [partition for topic in response.topics for partition in topic.partitions]
    return any(answer.error_code == ErrorCode.NONE for answer in answers)


class ActiveController:
    """Looks for the active controller in the background while the nodes start. `controllers` gives
    the controller listeners by node id, as far as they are known, `security` how they are reached. Times are
    monotonic seconds."""

    def __init__(
        self,
        controllers: Callable[[], Mapping[int, Endpoint]],
        security: Callable[[], ClientSecurity] = lambda: OPEN,
    ) -> None:
        self.node = -1
        self.seen_at: float | None = None
        self._controllers = controllers
        self._security = security
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        deadline = time.monotonic() + CONTROLLER_S
        while self.seen_at is None and time.monotonic() < deadline:
            for node, endpoint in self._controllers().items():
                if leads_the_quorum(endpoint, self._security()):
                    self.node, self.seen_at = node, time.monotonic()
                    return
            time.sleep(POLL_S)

    def wait(self, timeout_s: float) -> None:
        """Wait until the active controller is found, at most `timeout_s`."""
        self._thread.join(timeout_s)


def wait_for_whole_isr(cluster: ClusterClient, topic: str, replicas: int, timeout_s: float) -> None:
    """Return when every partition has `replicas` in-sync replicas. Raises
    `ClusterUnreachableError` after `timeout_s`."""
    patience = Patience(timeout_s * 1000)
    while True:
        partitions = partitions_of(cluster, topic)
        short = [partition for partition in partitions if len(partition.isr_nodes) < replicas]
        if partitions and not short:
            return
        which = short[0] if short else None
        patience.wait(f"the ISR of {topic}-{which.partition_index if which else '?'} is not whole")


class NewLeader:
    """Waits for another leader than `old` in the background. Times are monotonic seconds."""

    def __init__(
        self,
        survivors: Sequence[Endpoint],
        topic: str,
        partition: int,
        old: int,
        security: ClientSecurity = OPEN,
    ) -> None:
        self.leader = -1
        self.seen_at: float | None = None
        self._cluster = ClusterClient(
            survivors, "barnabas-demo-watch", patience_ms=NEW_LEADER_S * 1000, security=security
        )
        self._what = (topic, partition, old)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        topic, partition, old = self._what
        deadline = time.monotonic() + NEW_LEADER_S
        while time.monotonic() < deadline:
            leader = leader_of(self._cluster, topic, partition)
            if leader not in (old, -1):
                self.leader, self.seen_at = leader, time.monotonic()
                break
            time.sleep(POLL_S)
        self._cluster.close()
