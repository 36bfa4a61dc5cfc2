"""Topics of before Kafka 2.8, whose znodes have no id: they get one, as from Kafka's controller.

Kafka 3.9 writes the znode again with an id, whatever its version is. Here the write is conditional on the
version that was read, so that the assignment of another writer is never undone.

Source: Kafka's ``KafkaController.processTopicIds`` and ``KafkaZkClient.setTopicIds``; KIP-516.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

from barnabas.types import Uuid
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout, TopicEntry
from barnabas.zookeeper.layout.topic_znodes import VERSION
from barnabas.zookeeper.operations import SetData


def without_id(topics: Iterable[TopicEntry]) -> list[TopicEntry]:
    """Those of `topics` that have no id."""
    return [topic for topic in topics if topic.znode.topic_id is None]


def give_ids(
    layout: ClusterLayout, topics: Iterable[TopicEntry], new_id: Callable[[str], Uuid]
) -> list[SetData]:
    """The operations that write an id for each of `topics` that has none. The entries, and `layout`, have the
    ids as if that was done."""
    operations = []
    for topic in without_id(topics):
        znode = topic.znode
        topic_id = new_id(znode.topic)
        topic.znode = replace(znode, topic_id=topic_id, version=VERSION)
        layout.topic_names[topic_id] = znode.topic
        operations.append(SetData(znode.path, topic.znode.encode(), topic.version))
        topic.version += 1
    return operations


def number_topics(layout: ClusterLayout) -> list[str]:
    """Give numbers as ids to topics that have none, for one who only reads; their names."""
    found = without_id(layout.topics.values())
    numbers = count(1)
    give_ids(layout, found, lambda name: Uuid(next(numbers).to_bytes(16, "big")))
    return [topic.znode.topic for topic in found]
