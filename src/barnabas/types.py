"""Identifiers and small values that every layer uses.

The types have no behaviour beyond conversion to and from text. Ids, epochs and offsets are
``NewType`` over ``int``: mypy distinguishes a leader epoch from a quorum epoch, and at run time both
are plain integers.

A UUID is its 16 raw bytes (``Uuid``): hashable, compact, the same as on
the wire. Kafka prints one as URL-safe base64 without padding.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple, NewType, TypeAlias, TypeVar

new_tuple = tuple.__new__
"""``new_tuple(Class, values)`` makes a NamedTuple without a call of Python code, for code that makes
thousands a second."""

NodeId = NewType("NodeId", int)
"""Id of a node, whatever its roles: a broker id and a controller id are node ids."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Epoch of one partition's leadership, assigned by the controller."""
PartitionEpoch = NewType("PartitionEpoch", int)
"""Version of one partition's state in the metadata log."""
BrokerEpoch = NewType("BrokerEpoch", int)
"""Offset of the metadata record that registered the present incarnation of a broker."""
QuorumEpoch = NewType("QuorumEpoch", int)
"""Epoch of the metadata quorum's leadership (Raft's term)."""
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
GroupEpoch = NewType("GroupEpoch", int)
Offset = NewType("Offset", int)
"""Logical position of a record in a partition; never a count of bytes (that is a *position*)."""

Uuid = NewType("Uuid", bytes)
Buffer: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = bytes | bytearray | memoryview | list[Buffer]
"""Record batches one after the other, in the bytes of the wire and of the disk. A list of buffers means their
concatenation."""

NO_NODE = NodeId(-1)
"""No leader, no vote, no replica."""
NO_PRODUCER_ID = ProducerId(-1)

ZERO_UUID = Uuid(bytes(16))
ONE_UUID = Uuid(bytes(15) + b"\x01")
METADATA_TOPIC_ID = ONE_UUID
"""Topic id of ``__cluster_metadata``."""
METADATA_TOPIC = "__cluster_metadata"
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
COORDINATOR_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)
"""Topics of which a key's partition follows from their number of partitions."""

DIRECTORY_MIGRATING = ZERO_UUID
"""Directory id of a replica that was created before replicas had directory ids: it is in an unknown directory
(KIP-858)."""
DIRECTORY_UNASSIGNED = ONE_UUID
"""Directory id of a new replica, until its broker reports the directory."""
DIRECTORY_LOST = Uuid(bytes(15) + b"\x02")
"""Directory id of a replica whose directory failed: the replica is offline."""
DIRECTORIES_UNKNOWN = (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING)
"""Directory ids of replicas that are online in a directory that is not known."""
DIRECTORIES_RESERVED = 100
"""The ids 0 to 99 are reserved; no directory has one of them."""
DEBUGGING_REPLICA = -2
"""Replica id in a ListOffsets request that any replica answers, for its whole log. A follower sends its node
id, a consumer -1."""


class TopicPartition(NamedTuple):
    """One partition by topic name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Topic = TypeVar("Topic")
"""Whatever identifies a topic to the caller: its name, its id, or both."""
Part = TypeVar("Part")
"""The index of a partition, or the element that a message has for it."""


def by_topic(pairs: Iterable[tuple[Topic, Part]]) -> dict[Topic, list[Part]]:
    """The parts of each topic, as requests and responses nest them. Topics and parts keep their order."""
    topics: dict[Topic, list[Part]] = {}
    for topic, part in pairs:
        topics.setdefault(topic, []).append(part)
    return topics


class Endpoint(NamedTuple):
    """Host and port of a listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_int32(text: str) -> bool:
    """Whether `text` is a number from 0 to 2³¹ - 1 in at most ten ASCII digits. ``int`` raises for ``²``,
    which `isdigit` calls a digit, and for texts of more than 4,300 digits."""
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 1 << 31


def is_int64(text: str) -> bool:
    """Whether `text` is a number from 0 to 2⁶³ - 1 in at most nineteen ASCII digits."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < 1 << 63


def uuid_text(value: Uuid) -> str:
    """Kafka's text form: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> Uuid:
    """Inverse of :func:`uuid_text`. Raises ``ValueError`` where `text` is no UUID."""
    if len(text) > 24:
        raise ValueError(f"a UUID has 22 characters of base64, not {text!r}")
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"a UUID has 16 bytes, {text!r} gives {len(raw)}")
    return Uuid(raw)
