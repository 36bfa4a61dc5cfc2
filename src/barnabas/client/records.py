"""Records of producers and consumers, and the default partitioner.

Source: Kafka's default partitioner (murmur2 of the key), so that all clients choose the same partition for a
key.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.record.decode import Headers


class ProducerRecord(NamedTuple):
    """A record to write. `partition` None: the key chooses it, or chance. `timestamp_ms` None: now."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()

    @property
    def size(self) -> int:
        """Its approximate size in a batch in bytes, uncompressed."""
        _, value, key, _, _, headers = self
        size = 21 + (len(value) if value else 0) + (len(key) if key else 0)
        for name, content in headers:
            size += 10 + len(name) + len(content or b"")
        return size


class Delivery(NamedTuple):
    """The position of an acknowledged record. `offset` is -1 if the broker returned none
    (acks=0, or a retry of a batch that it already had)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ConsumerRecord(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class DeliveredRecord(NamedTuple):
    """A record that a share group delivered."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    deliveries: int = 1
    """How often it was delivered to members of the group, this delivery among them."""


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of `key` in a topic with this many partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """32-bit murmur2 with Kafka's seed, as an unsigned number."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * multiplier & mask
        word = (word ^ (word >> 24)) * multiplier & mask
        value = (value * multiplier & mask) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    value = (value ^ (value >> 13)) * multiplier & mask
    return value ^ (value >> 15)
