"""Throttles this broker's replication: what it sends as leader, and what it fetches as follower.

The rates are the broker's dynamic ``leader.replication.throttled.rate`` and
``follower.replication.throttled.rate``; each topic's ``...replication.throttled.replicas`` names
the replicas that they limit. Both may change at any time. A replica in the ISR is never held back:
a throttle slows down copies, not acknowledgements.

Source: KIP-73; Kafka's ReplicationQuotaManager, ReplicaManager and ReplicaFetcherThread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from barnabas.broker.partitions.partition import Partition
from barnabas.metadata.image.image import TOPIC, MetadataImage
from barnabas.ports import Clock
from barnabas.replication.throttle import UNLIMITED, Quota, Throttled

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
WAIT_MS_MAX = 1000.0
"""The longest wait before the rate is looked at again: it may be raised, or the throttle lifted."""


class Side:
    """The quota of one direction, and the replicas that it limits."""

    def __init__(self, rate_key: str, replicas_key: str) -> None:
        self.rate_key = rate_key
        self.replicas_key = replicas_key
        self.quota = Quota()
        self.topics: dict[str, Throttled | None] = {}
        self.copied_bytes = 0
        """Bytes of throttled replicas, counted while there is a rate."""


class ThrottleObserver(Protocol):
    """Learns of every replica that waits."""

    def on_held_back(self, partition: Partition, follower: int, /) -> None:
        """This broker leads `partition` and sends `follower` none of its records now."""

    def on_wait(self, partition: Partition, /) -> None:
        """This broker follows `partition` and does not fetch it while the quota is exceeded."""


class ReplicationThrottle:
    """The throttle of one broker, in both directions."""

    def __init__(
        self,
        clock: Clock,
        node_id: int,
        image: MetadataImage,
        broker_texts: Callable[[], Mapping[str, str]],
    ) -> None:
        self._clock = clock
        self._node_id = node_id
        self._image = image
        self._broker_texts = broker_texts
        self._version = -1
        self.leader = Side(LEADER_RATE, LEADER_REPLICAS)
        self.follower = Side(FOLLOWER_RATE, FOLLOWER_REPLICAS)
        self._observers: list[ThrottleObserver] = []
        self.fetched_bytes = 0
        """The bytes that this broker's replicas have fetched from leaders, throttled or not."""

    def observe(self, observer: ThrottleObserver) -> None:
        """Tell `observer` of every replica that waits from now on."""
        self._observers.append(observer)

    # -- as leader -------------------------------------------------------------------------------

    @property
    def limits_leader(self) -> bool:
        """Whether this broker has a rate as leader; without one, nothing is counted."""
        return self._current(self.leader).quota.rate < UNLIMITED

    def holds_back(self, partition: Partition, follower: int, promised: int) -> bool:
        """Whether `follower` gets no records of `partition` now. The same answer already has
        `promised` bytes of throttled partitions."""
        held = self._is_held_back(partition, follower, promised)
        if held:
            for observer in self._observers:
                observer.on_held_back(partition, follower)
        return held

    def _is_held_back(self, partition: Partition, follower: int, promised: int) -> bool:
        side = self._current(self.leader)
        if not self._is_throttled(side, partition):
            return False
        leader = partition.leader
        if leader is None or follower in leader.isr:
            return False
        return side.quota.is_exceeded(self._clock.now_ms(), promised)

    def counts_as_sent(self, partition: Partition) -> bool:
        """Whether records of `partition` count towards the leader's quota."""
        return self._is_throttled(self._current(self.leader), partition)

    def sent(self, size: int) -> None:
        """`size` bytes of throttled partitions went to a follower."""
        self.leader.quota.record(size, self._clock.now_ms())
        self.leader.copied_bytes += size

    # -- as follower -----------------------------------------------------------------------------

    def fetched(self, partition: Partition, size: int) -> None:
        """`size` bytes of `partition` came from its leader."""
        self.fetched_bytes += size
        side = self._current(self.follower)
        if side.quota.rate < UNLIMITED and self._is_throttled(side, partition):
            side.quota.record(size, self._clock.now_ms())
            side.copied_bytes += size

    def wait_ms(self) -> float:
        """How long throttled replicas wait before they ask again; 0 if they may fetch now."""
        wait_ms = self._current(self.follower).quota.wait_ms(self._clock.now_ms())
        return min(wait_ms, WAIT_MS_MAX)

    def waits(self, partition: Partition) -> bool:
        """Whether `partition` is throttled: it is not fetched while the quota is exceeded."""
        held = self._is_waiting(partition)
        if held:
            for observer in self._observers:
                observer.on_wait(partition)
        return held

    def _is_waiting(self, partition: Partition) -> bool:
        if not self._is_throttled(self._current(self.follower), partition):
            return False
        topic = self._image.topics_by_id.get(partition.topic_id)
        if topic is None or not topic.has(partition.index):
            return False
        return self._node_id not in topic.isr[partition.index]

    # -- configuration ---------------------------------------------------------------------------

    def _current(self, side: Side) -> Side:
        if self._version != self._image.config_version:
            self._version = self._image.config_version
            texts = self._broker_texts()
            for one in (self.leader, self.follower):
                one.quota.rate = int(texts.get(one.rate_key, UNLIMITED))
                one.topics.clear()
        return side

    def _is_throttled(self, side: Side, partition: Partition) -> bool:
        topic = partition.topic
        if topic not in side.topics:
            text = self._image.config(TOPIC, topic).get(side.replicas_key, "")
            side.topics[topic] = Throttled(text, self._node_id) if text else None
        throttled = side.topics[topic]
        return throttled is not None and partition.index in throttled

    def describe(self) -> dict[str, object]:
        """Rates and bytes, for people and metrics."""
        return {
            side.rate_key: {"rate": self._current(side).quota.rate, "bytes": side.copied_bytes}
            for side in (self.leader, self.follower)
        }
