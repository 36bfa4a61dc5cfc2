"""Topics that other tools ask for by znodes: made, or deleted, and what an interrupted creation has left.

A topic below ``/brokers/topics`` that the controller does not know gets an id, and every partition
without a state znode its first leader and ISR. A name below ``/admin/delete_topics`` is deleted, where
topics may be.

Source: Kafka's ``KafkaController.processTopicChange`` and ``processTopicDeletion``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.config.meta_properties import random_uuid
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision, Record
from barnabas.metadata.image.image import TOPIC
from barnabas.metadata.image.topic import NO_LEADER
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.ports import Ports
from barnabas.types import ZERO_UUID
from barnabas.zookeeper.controller.journal import ZookeeperJournal
from barnabas.zookeeper.controller.topic_deletion import TopicDeletion
from barnabas.zookeeper.controller.unreadable_topics import UnreadableTopics
from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.layout.config_znodes import CONFIG, ConfigZnode
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS
from barnabas.zookeeper.layout.topic_znodes import TOPICS, TopicZnode, topic_path
from barnabas.zookeeper.operations import ChildNames, Delete, GetChildren, GetData, NodeData
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.states.controller_steps import ControllerSteps


class TopicRequests:
    """The requests that the watches of ``/brokers/topics`` and ``/admin/delete_topics`` bring to the
    active controller."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        journal: ZookeeperJournal,
        controller: QuorumController,
        deletions: TopicDeletion,
        steps: ControllerSteps,
        unreadable: UnreadableTopics,
        ask: Callable[[Any, Any], None],
    ) -> None:
        """`ask` reads while this broker is the controller."""
        self._unreadable = unreadable
        self._random_bytes = ports.rng("zookeeper.topics").randbytes
        self._steps = steps
        self._sessions = sessions
        self._journal = journal
        self._controller = controller
        self._deletions = deletions
        self._ask = ask

    def on_topics(self, children: ChildNames | ZooKeeperError) -> None:
        if isinstance(children, ZooKeeperError):
            return
        for name in children.names:
            unknown = not self._journal.has_topic(name) and name not in self._deletions
            if unknown and name not in self._controller.image.topics_by_name:
                self._ask(GetData(topic_path(name)), partial(self._on_topic, name))

    def _on_topic(self, name: str, node: NodeData | ZooKeeperError) -> None:
        """A topic that another tool made."""
        if isinstance(node, ZooKeeperError) or self._journal.has_topic(name):
            return
        self._journal.knows_topic(name, node.stat.version)
        self._steps.on_found(TOPICS, name)
        try:
            assignment = TopicZnode.decode(topic_path(name), node.data)
        except MalformedZnode as error:
            self._unreadable.add(error)
            return
        self.complete(name, assignment)

    def complete(self, name: str, assignment: TopicZnode) -> None:
        """Make the state znodes that are missing, once it is known which znodes above them are there."""
        folder = f"{topic_path(name)}/partitions"

        def on_folder(result: ChildNames | ZooKeeperError) -> None:
            if isinstance(result, ChildNames):
                self._journal.folders[folder] = None
                self._journal.folders.update((f"{folder}/{child}", None) for child in result.names)
            elif isinstance(result, NoNode) and name in self._controller.image.topics_by_name:
                self._journal.lacking[folder] = None
            self._ask(
                GetData(f"{CONFIG}/topics/{name}"),
                partial(self._decide_topic, name, assignment),
            )

        self._ask(GetChildren(folder), on_folder)

    def _decide_topic(
        self, name: str, assignment: TopicZnode, config: NodeData | ZooKeeperError
    ) -> None:
        controller = self._controller
        topic = controller.image.topics_by_name.get(name)
        records: list[Record] = []
        topic_id = topic.id if topic is not None else assignment.topic_id or ZERO_UUID
        if topic is None:
            if topic_id == ZERO_UUID:
                topic_id = random_uuid(self._random_bytes)
            records.append(TopicRecord(name=name, topic_id=topic_id))
            if isinstance(config, NodeData):
                self._observe_config(name, config)
        for index, partition in sorted(assignment.partitions.items()):
            replicas = partition.replicas
            if not replicas or (topic is not None and topic.has(index)):
                continue
            live = [broker for broker in replicas if controller.cluster.is_active(broker)]
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=live or replicas,
                    leader=live[0] if live else NO_LEADER,
                    leader_epoch=0,
                    partition_epoch=0,
                    reason=f"topic {name} is in ZooKeeper and partition {index} has no state yet",
                )
            )
        has_partitions = any(isinstance(record, PartitionRecord) for record in records)
        if has_partitions:
            controller.commit(Decision(None, records, f"topic {name} is completed"))

    def _observe_config(self, name: str, node: NodeData) -> None:
        values = ConfigZnode.decode(f"{CONFIG}/topics/{name}", node.data).config
        records = [
            ConfigRecord(resource_type=TOPIC, resource_name=name, name=key, value=value)
            for key, value in sorted(values.items())
        ]
        if records:
            self._journal.observe(
                lambda: self._controller.commit(Decision(None, records, f"configuration of {name}"))
            )

    def on_delete_topics(self, children: ChildNames | ZooKeeperError) -> None:
        if isinstance(children, ZooKeeperError):
            return
        controller = self._controller
        for name in children.names:
            if self._journal.is_deleting(name) or name in self._unreadable:
                continue
            topic = controller.image.topics_by_name.get(name)
            if topic is None or not controller.config.controller.delete_topics:
                self._sessions.submit(Delete(f"{DELETE_TOPICS}/{name}"), lambda _: None)
                continue
            self._journal.knows_deletion(name)
            self._steps.on_found(DELETE_TOPICS, name)
            reason = f"the deletion of {name} is asked for in ZooKeeper"
            record = RemoveTopicRecord(topic_id=topic.id, reason=reason)
            controller.commit(Decision(None, [record], reason))
