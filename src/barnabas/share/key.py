"""The name of a share partition: group, topic, partition.

Its text is the key by which clients ask for its coordinator, and the hash of that text says which partition
of ``__share_group_state`` its records are in. Source: ``SharePartitionKey`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.types import Uuid, is_int32, uuid_from_text, uuid_text


class SharePartitionKey(NamedTuple):
    """One partition of one share group."""

    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def text(self) -> str:
        """``group:topic id:partition``."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"

    def __str__(self) -> str:
        return self.text


def key_from_text(text: str) -> SharePartitionKey:
    """The key of a text; a group's name may have colons. Raises ``ValueError``."""
    parts = text.rsplit(":", 2)
    if len(parts) < 3 or not parts[0].strip():
        raise ValueError(f"a share partition is group:topic id:partition, not {text!r}")
    group_id, topic, partition = parts
    if not is_int32(partition):
        raise ValueError(f"{partition!r} is no partition")
    return SharePartitionKey(group_id, uuid_from_text(topic), int(partition))
