"""The consumer protocol that members of the classic protocol embed: subscriptions and assignments.

Source: ``ConsumerProtocol`` of Apache Kafka's clients 4.3.
"""

from __future__ import annotations

from struct import Struct, error

from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.consumer.member import Assigned, Owned, owned_of
from barnabas.types import Uuid
from barnabas.wire.codec import MalformedError, decode, encode_bytes
from barnabas.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_INT16 = Struct(">h")


class EmbeddedError(ValueError):
    """The bytes do not follow the consumer protocol."""


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Raises :class:`EmbeddedError`."""
    version = min(version_of(data), ConsumerProtocolSubscription.VALID[1])
    try:
        return decode(ConsumerProtocolSubscription, version, data[2:])
    except MalformedError as fault:
        raise EmbeddedError(str(fault)) from fault


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Raises :class:`EmbeddedError`."""
    version = min(version_of(data), ConsumerProtocolAssignment.VALID[1])
    try:
        return decode(ConsumerProtocolAssignment, version, data[2:])
    except MalformedError as fault:
        raise EmbeddedError(str(fault)) from fault


def write_assignment(assigned: Assigned, version: int, cluster: ClusterTopics) -> bytes:
    """Encode a member's assignment in that version of the protocol."""
    version = max(0, min(version, ConsumerProtocolAssignment.VALID[1]))
    parts = [
        TopicPartition(topic=name, partitions=sorted(assigned[topic_id]))
        for topic_id in sorted(assigned)
        if (name := cluster.name_of(topic_id)) is not None
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=parts, user_data=None)
    return _INT16.pack(version) + encode_bytes(message, version)


def version_of(data: bytes) -> int:
    """Raises :class:`EmbeddedError`."""
    try:
        version: int = _INT16.unpack_from(data)[0]
    except error as fault:
        raise EmbeddedError(str(fault)) from fault
    if version < 0:
        raise EmbeddedError(f"version {version}")
    return version


def assigned_by(
    assignment: ConsumerProtocolAssignment, epoch: int, cluster: ClusterTopics
) -> dict[Uuid, dict[int, int]]:
    """The assigned partitions of existing topics, with `epoch` as the epoch of their assignment."""
    assigned: dict[Uuid, dict[int, int]] = {}
    for part in assignment.assigned_partitions:
        topic_id = cluster.id_of(part.topic)
        if topic_id is not None and part.partitions:
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(part.partitions, epoch))
    return assigned


def owned_in(subscription: ConsumerProtocolSubscription, cluster: ClusterTopics) -> Owned:
    """The partitions that the member reports to own."""
    found = ((cluster.id_of(part.topic), part.partitions) for part in subscription.owned_partitions)
    return owned_of((topic_id, parts) for topic_id, parts in found if topic_id is not None)
