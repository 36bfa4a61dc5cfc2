"""Which member of a classic group gets which partition: the leader's decision, as plain functions.

Source: Kafka's RangeAssignor and RoundRobinAssignor; the consumer protocol (KIP-62, KIP-429).
Subscriptions and assignments are two bytes of version and a ConsumerProtocol message.
Kafka's ``ConsumerPartitionAssignor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from struct import Struct

from barnabas.types import TopicPartition, by_topic
from barnabas.wire.codec import MalformedError, decode_prefix, encode_bytes
from barnabas.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from barnabas.wire.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedTopic,
)
from barnabas.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

Subscriptions = Mapping[str, Iterable[str]]
"""Member to topics; the members in the order in which they are served (`in_turn`)."""
Assignment = dict[str, list[TopicPartition]]
Assignor = Callable[[Subscriptions, Mapping[str, int]], Assignment]
_VERSION = Struct(">h")
PROTOCOL_TYPE = "consumer"


def in_turn(instances: Mapping[str, str | None]) -> list[str]:
    """The members (with the instance ids of static ones) as every leader of a group has them: static ones
    first, by instance id, so that one that comes back under another id finds what it had."""
    return sorted(instances, key=lambda m: (instances[m] is None, instances[m] or m))


def assign_range(subscriptions: Subscriptions, partitions: Mapping[str, int]) -> Assignment:
    """Per topic, a run of partitions for each of its members in their order."""
    given: Assignment = {member: [] for member in subscriptions}
    topics = _members_by_topic(subscriptions)
    for topic in sorted(topics):
        members, count = topics[topic], partitions.get(topic, 0)
        share, rest = divmod(count, len(members))
        start = 0
        for index, member in enumerate(members):
            size = share + (1 if index < rest else 0)
            given[member] += [TopicPartition(topic, p) for p in range(start, start + size)]
            start += size
    return given


def assign_round_robin(subscriptions: Subscriptions, partitions: Mapping[str, int]) -> Assignment:
    """All partitions of all topics in turn over the members that want them."""
    given: Assignment = {member: [] for member in subscriptions}
    wanted = {member: set(topics) for member, topics in subscriptions.items()}
    turn = cycle(subscriptions)
    for topic in sorted(_members_by_topic(subscriptions)):
        for partition in range(partitions.get(topic, 0)):
            member = next(m for m in turn if topic in wanted[m])
            given[member].append(TopicPartition(topic, partition))
    return given


ASSIGNORS: dict[str, Assignor] = {"range": assign_range, "roundrobin": assign_round_robin}


def _members_by_topic(subscriptions: Subscriptions) -> dict[str, list[str]]:
    return by_topic((topic, member) for member, wanted in subscriptions.items() for topic in wanted)


def write_subscription(topics: Iterable[str]) -> bytes:
    message = ConsumerProtocolSubscription(topics=sorted(topics))
    return _VERSION.pack(1) + encode_bytes(message, 1)


def read_subscription(data: bytes) -> list[str]:
    """The topics. Raises `MalformedError`."""
    version = _version_of(data, ConsumerProtocolSubscription.VALID[1])
    message, _ = decode_prefix(ConsumerProtocolSubscription, version, memoryview(data), 2)
    return list(message.topics)


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedTopic(topic=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    )
    return _VERSION.pack(1) + encode_bytes(message, 1)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions; no bytes are none. Raises `MalformedError`."""
    if not data:
        return []
    version = _version_of(data, ConsumerProtocolAssignment.VALID[1])
    message, _ = decode_prefix(ConsumerProtocolAssignment, version, memoryview(data), 2)
    return [TopicPartition(t.topic, p) for t in message.assigned_partitions for p in t.partitions]


def _version_of(data: bytes, highest: int) -> int:
    """A later version than this program knows is read as the latest it knows (KIP-62)."""
    if len(data) < 2:
        raise MalformedError("a consumer protocol message without a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedError(f"consumer protocol version {version}")
    return min(version, highest)
