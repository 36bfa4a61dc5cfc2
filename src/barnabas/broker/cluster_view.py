"""The cluster as clients of one listener may see it: brokers alive, leaders, offline replicas.

Reads the committed image; decides nothing. A broker is shown where it is unfenced and advertises the
listener that was asked; a leader that is not shown is LEADER_NOT_AVAILABLE.

Behaviour: Kafka's KRaftMetadataCache.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.registrations import BrokerRegistration, ListenerEndpoint
from barnabas.metadata.image.topic import Replicas, Topic
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode

NOT_ASKED = -2147483648
"""Authorized operations that the client did not ask for."""
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Everything that can be done with a topic or the cluster, as AclOperation codes: no client is refused."""


class LiveBroker(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None


class PartitionView(NamedTuple):
    """One partition as a client sees it."""

    code: ErrorCode
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class ClusterView:
    """The image through one listener, for one request: what it found out it remembers, since
    thousands of partitions share a few leaders and placements."""

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self.image = image
        self.listener = listener
        self._endpoints: dict[int, ListenerEndpoint | None] = {}
        self._offline: dict[tuple[Replicas, tuple[Uuid, ...]], Replicas] = {}

    def endpoint(self, broker: int) -> ListenerEndpoint | None:
        """The address at which `broker` is reached; None where it is not shown."""
        if broker not in self._endpoints:
            self._endpoints[broker] = self._find_endpoint(broker)
        return self._endpoints[broker]

    def _find_endpoint(self, broker: int) -> ListenerEndpoint | None:
        known = self.image.brokers.get(broker)
        if known is None or known.fenced:
            return None
        return known.listeners.get(self.listener)

    def live_brokers(self, still_shown: Collection[int] = ()) -> list[LiveBroker]:
        """The live brokers by id; those `still_shown` too, though they are fenced."""
        found = []
        for broker in sorted(self.image.brokers):
            at = self.endpoint(broker)
            if at is None and broker in still_shown:
                at = self.image.brokers[broker].listeners.get(self.listener)
            if at is not None:
                found.append(LiveBroker(broker, at.host, at.port, self.image.brokers[broker].rack))
        return found

    def brokers(self) -> list[tuple[BrokerRegistration, ListenerEndpoint]]:
        """All that advertise the listener, fenced ones too."""
        found = []
        for broker in sorted(self.image.brokers):
            known = self.image.brokers[broker]
            at = known.listeners.get(self.listener)
            if at is not None:
                found.append((known, at))
        return found

    def partition(self, topic: Topic, index: int, *, unavailable_listeners: bool) -> PartitionView:
        """`unavailable_listeners`: the client knows LISTENER_NOT_FOUND."""
        leader = topic.leader[index]
        replicas = topic.replicas[index]
        code = ErrorCode.NONE
        if self.endpoint(leader) is None:
            known = self.image.brokers.get(leader)
            missing = known is not None and self.listener not in known.listeners
            code = (
                ErrorCode.LISTENER_NOT_FOUND
                if missing and unavailable_listeners
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
            leader = -1
        return PartitionView(
            code,
            leader,
            topic.leader_epoch[index],
            replicas,
            topic.isr[index],
            self._offline_of(replicas, topic.directories[index]),
        )

    def _offline_of(self, replicas: Replicas, directories: tuple[Uuid, ...]) -> Replicas:
        """Those of `replicas` that do not serve: not shown, or in a directory that failed."""
        placement = (replicas, directories)
        found = self._offline.get(placement)
        if found is None:
            found = self._offline[placement] = tuple(
                [
                    broker
                    for position, broker in enumerate(replicas)
                    if self._is_offline(broker, directories, position)
                ]
            )
        return found

    def _is_offline(self, broker: int, directories: tuple[Uuid, ...], position: int) -> bool:
        """`directories` may be fewer than the replicas: nothing is known of the others'."""
        known = self.image.brokers.get(broker)
        if known is None or known.fenced or self.listener not in known.listeners:
            return True
        return position < len(directories) and not known.has_directory(directories[position])
