"""The znode operations that write decided records, with the versions on which they are conditional.

Topics and partitions are written as the controller's image has them. Each change of a partition is one
write of its state znode, whose version is the partition epoch. `ClusterLayout` makes the operations of all
other records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from barnabas.metadata.image.image import TOPIC, MetadataImage
from barnabas.metadata.image.topic import ORDINARY, Topic
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.request_znodes import DeleteTopicZnode
from barnabas.zookeeper.layout.topic_znodes import (
    PartitionAssignment,
    PartitionStateZnode,
    TopicZnode,
    partition_path,
    topic_path,
)
from barnabas.zookeeper.operations import Create, Operation, SetData


class Known(Protocol):
    """The znodes that a journal knows."""

    written_image: MetadataImage
    committed_image: MetadataImage
    layout: ClusterLayout
    topic_versions: dict[str, int]
    folders: dict[str, None]
    lacking: dict[str, None]
    deleting: dict[str, None]


class RecordWrites:
    """Collects the operations of some decisions; each topic znode is written once.

    The operations may be cut into several transactions, so that their order matters. A new partition is in
    the assignment before its state znode exists. A replica leaves the ISR before it leaves the assignment:
    topics without new partitions are therefore written after the states.
    """

    def __init__(self, known: Known, controller_epoch: int) -> None:
        self._known = known
        self._image = known.written_image
        self._epoch = controller_epoch
        self._topics: dict[str, Operation] = {}
        self._grown: dict[str, None] = {}
        """Topics with new partitions."""
        self._below: list[Operation] = []
        self._others: list[Operation] = []
        self._writes: dict[tuple[Uuid, int], int] = {}
        self._versions: dict[tuple[Uuid, int], int] = {}
        """Versions of state znodes that leaders wrote themselves."""
        self._last: list[Operation] = []

    def add(self, records: Iterable[Message], *, observed: bool = False) -> None:
        """`observed`: the znodes have this content already, and nothing is written."""
        others: list[Message] = []
        for record in records:
            if not isinstance(record, _OF_TOPICS):
                if self._has_znode(record):
                    others.append(record)
            elif not observed:
                self._add(record)
            elif isinstance(record, PartitionRecord):
                key = (Uuid(record.topic_id), record.partition_id)
                self._versions[key] = record.partition_epoch
                self._writes.pop(key, None)
        operations = self._known.layout.apply(others)
        if not observed:
            self._others += operations

    def _has_znode(self, record: Message) -> bool:
        """False for the configuration of a topic that a later decision deletes."""
        if isinstance(record, ConfigRecord) and record.resource_type == TOPIC:
            return record.resource_name in self._image.topics_by_name
        return True

    def _add(self, record: Message) -> None:
        if isinstance(record, TopicRecord):
            self._topic(record)
        elif isinstance(record, PartitionRecord):
            self._partition(record)
        elif isinstance(record, PartitionChangeRecord):
            self._change(record)
        elif isinstance(record, RemoveTopicRecord):
            self._remove(record)

    def finish(self) -> deque[Operation]:
        """All operations in their order; a topic's configuration comes before the topic."""
        grown = [one for name, one in self._topics.items() if name in self._grown]
        moved = [one for name, one in self._topics.items() if name not in self._grown]
        return deque([*self._others, *grown, *self._below, *moved, *self._last])

    def _assignment(self, topic: Topic) -> None:
        znode = _topic_znode(topic)
        version = self._known.topic_versions.get(topic.name)
        if version is None:
            self._topics[topic.name] = Create(znode.path, znode.encode())
        elif not isinstance(self._topics.get(topic.name), Create):
            self._topics[topic.name] = SetData(znode.path, znode.encode(), version)

    def _topic(self, record: TopicRecord) -> None:
        topic = self._image.topics_by_id.get(Uuid(record.topic_id))
        if topic is None:
            return  # deleted by a later decision: neither is written
        known = record.name in self._known.topic_versions
        self._grown[topic.name] = None
        self._assignment(topic)
        folder = f"{topic_path(record.name)}/partitions"
        if not known:
            self._known.topic_versions[record.name] = 0
        if folder not in self._known.folders:
            self._below.append(Create(folder))

    def _partition(self, record: PartitionRecord) -> None:
        topic = self._image.topics_by_id.get(Uuid(record.topic_id))
        if topic is None:
            return
        self._grown[topic.name] = None
        if topic.name not in self._topics:
            self._assignment(topic)
        folder = f"{topic_path(topic.name)}/partitions"
        if folder in self._known.lacking:
            del self._known.lacking[folder]
            self._below.append(Create(folder))
        path = partition_path(topic.name, record.partition_id)
        if path not in self._known.folders:
            self._below.append(Create(path))
        znode = self._state(topic, record.partition_id)
        self._below.append(Create(znode.path, znode.encode()))

    def _change(self, record: PartitionChangeRecord) -> None:
        key = (Uuid(record.topic_id), record.partition_id)
        topic = self._image.topics_by_id.get(key[0])
        if topic is None:
            return
        before = self._known.committed_image.partition(*key)
        moves = (record.replicas, record.adding_replicas, record.removing_replicas)
        if any(ids is not None for ids in moves):
            self._assignment(topic)
        written = self._writes.get(key, 0)
        self._writes[key] = written + 1
        first = 0 if before is None else before.partition_epoch
        version = self._versions.get(key, first) + written
        znode = self._state(topic, record.partition_id)
        self._below.append(SetData(znode.path, znode.encode(), version))

    def _state(self, topic: Topic, index: int) -> PartitionStateZnode:
        state = topic.partition(index)
        return PartitionStateZnode(
            topic.name,
            index,
            state.leader,
            state.leader_epoch,
            tuple(state.isr),
            self._epoch,
            state.recovery,
        )

    def _remove(self, record: RemoveTopicRecord) -> None:
        topic = self._known.committed_image.topics_by_id.get(Uuid(record.topic_id))
        if topic is not None and topic.name not in self._known.deleting:
            self._known.deleting[topic.name] = None
            self._last.append(Create(DeleteTopicZnode(topic.name).path))


_OF_TOPICS = (TopicRecord, PartitionRecord, PartitionChangeRecord, RemoveTopicRecord)


def _topic_znode(topic: Topic) -> TopicZnode:
    partitions = {}
    for index, replicas in enumerate(topic.replicas):
        if replicas:
            rare = topic.rare.get(index, ORDINARY)
            partitions[index] = PartitionAssignment(
                tuple(replicas), tuple(rare.adding), tuple(rare.removing)
            )
    return TopicZnode(topic.name, topic.id, partitions)
