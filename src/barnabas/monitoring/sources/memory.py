"""Bytes in memory by owner: what a broker keeps for as long as it serves, by counts and the sizes of one.

The sizes are those of CPython on 64 bits; a test compares them with what is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.broker.broker import Broker

TOPIC_BYTES = 900
"""A topic of the image: its object, columns, name and keys."""
PARTITION_BYTES = 60
"""A row of the image's columns. Replica lists are shared by rows that have equal ones."""
RARE_BYTES = 250
"""The further columns of a partition that moves or has an ELR."""
SESSION_BYTES = 500
"""A fetch session without partitions."""
SESSION_PARTITION_BYTES = 275


def kept_by(broker: Broker) -> Iterator[tuple[str, int]]:
    """Owners with their bytes."""
    topics = broker.image.topics_by_id
    rows = sum(map(len, topics.values()))
    rare = sum(len(topic.rare) for topic in topics.values())
    yield "image", len(topics) * TOPIC_BYTES + rows * PARTITION_BYTES + rare * RARE_BYTES
    sessions = list(broker.fetches.sessions.sessions())
    partitions = sum(len(session.partitions) for session in sessions)
    yield "sessions", len(sessions) * SESSION_BYTES + partitions * SESSION_PARTITION_BYTES
    yield "caches", broker.logs.files.loaded_bytes
