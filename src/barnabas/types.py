"""The shared nouns: identifiers and small values that every layer speaks.

Owns names only; no behaviour beyond conversion to and from text. All ids are
``NewType`` over ``int`` so that mypy tells a leader epoch from a quorum epoch
while the running program sees plain integers.

A UUID is its 16 raw bytes (``Uuid``): hashable, compact, exactly what is on
the wire. Kafka prints one as URL-safe base64 without padding.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple, NewType, TypeAlias

new_tuple = tuple.__new__
"""Makes a NamedTuple of its values without a call of Python code: where thousands are made a second."""

NodeId = NewType("NodeId", int)
"""Identity of a process, whatever roles it has; a broker id and a controller id are node ids."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Epoch of one partition's leadership, given by the controller."""
PartitionEpoch = NewType("PartitionEpoch", int)
"""Version of one partition's state in the metadata log."""
BrokerEpoch = NewType("BrokerEpoch", int)
"""Offset of the record that registered a broker's present incarnation."""
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
"""A run of record batches as they stand on the wire and on disk; a list is their concatenation."""

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

DIRECTORY_MIGRATING = ZERO_UUID
"""Of a replica from before replicas had directories: it is in one, which one is unknown (KIP-858)."""
DIRECTORY_UNASSIGNED = ONE_UUID
"""Of a new replica: its broker will say where it has put it."""
DIRECTORY_LOST = Uuid(bytes(15) + b"\x02")
"""Of a replica that was in a directory which cannot be read: offline."""
DIRECTORIES_UNKNOWN = (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING)
"""Those that do not say in which directory a replica is, and not that it is offline."""
DIRECTORIES_RESERVED = 100
"""So many ids, from 0 on, have a meaning of their own: no directory has one of them."""
DEBUGGING_REPLICA = -2
"""The id of a reader of any replica's whole log, where a follower says its own and a consumer -1."""


class TopicPartition(NamedTuple):
    """One partition by topic name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Endpoint(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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
