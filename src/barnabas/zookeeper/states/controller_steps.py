"""Records what a controller in ZooKeeper mode does: moves of states, and steps of creations and deletions.

The controller calls it when it decides, when that is written, and when brokers are sent orders and answer.

Steps of a topic's creation: the znode that a watch has found (where another tool made it), the assignment,
who lives, leader and ISR, the state znodes that are written with leader and controller epoch, LeaderAndIsr
and UpdateMetadata to each broker, their answers. Of a deletion: ``/admin/delete_topics``, StopReplica to
each broker and its answer, the znodes that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.partition_states import NEW, OFFLINE, ONLINE
from barnabas.metadata.image.topic import LEADER_UNCHANGED, NO_LEADER
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.views.cluster_events import described_record
from barnabas.ports import Ports
from barnabas.types import Uuid
from barnabas.wire.messages.kafka39.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.wire.messages.kafka39.stop_replica_request import StopReplicaRequest
from barnabas.wire.messages.kafka39.update_metadata_request import UpdateMetadataRequest
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS
from barnabas.zookeeper.layout.topic_znodes import state_path, topic_path
from barnabas.zookeeper.states.moves import DELETION_INELIGIBLE
from barnabas.zookeeper.states.state_book import STEP_EVENT, Replicas, StateBook

LISTED_MAX = 20
"""Partitions of one topic whose replicas a step lists."""
Key = tuple[Uuid, int]


class ControllerSteps:
    """Follows one broker's controller; `book` has the states, and the events."""

    def __init__(self, ports: Ports, image: MetadataImage, epoch: Callable[[], int]) -> None:
        """`image` is what is written to the znodes; `epoch` the controller's."""
        self._image = image
        self._epoch = epoch
        self.book = StateBook(ports, image)
        self._note = self.book.steps.note

    # -- the controller ----------------------------------------------------------------------------

    def on_elected(self, broker: int, epoch: int) -> None:
        self._note("controller", str(broker), f"elected in epoch {epoch}", "it made /controller")

    def on_loaded(self, epoch: int, alive: Iterable[int]) -> None:
        """The znodes are read; `alive` are the brokers that are registered."""
        self.book.begin(epoch, alive)

    def on_lost(self, broker: int, reason: str) -> None:
        self._note("controller", str(broker), "controller no more", reason)
        self.book.end()

    def on_unreadable(self, name: str, why: str) -> None:
        """The topic is left out until its znodes can be read."""
        self._note(STEP_EVENT, name, "left out by the controller", why)

    # -- decisions ---------------------------------------------------------------------------------

    def on_found(self, path: str, name: str) -> None:
        """A watch has found what another tool, or a broker of Kafka's, has written."""
        self._note(STEP_EVENT, name, f"found by the watch of {path}")

    def on_decided(self, records: Sequence[Message]) -> None:
        """Not written yet."""
        for record in records:
            if isinstance(record, TopicRecord):
                of_topic = [
                    one
                    for one in records
                    if isinstance(one, PartitionRecord) and one.topic_id == record.topic_id
                ]
                self._decided(record.name, of_topic)
            elif isinstance(record, RemoveTopicRecord):
                topic = self._image.topics_by_id.get(Uuid(record.topic_id))
                if topic is not None:
                    self._note(STEP_EVENT, topic.name, "deletion decided", record.reason or "")

    def _decided(self, name: str, partitions: Sequence[PartitionRecord]) -> None:
        alive = [b.id for b in self._image.brokers.values() if not b.fenced]
        listed = [f"{one.partition_id} on {_ids(one.replicas)}" for one in partitions[:LISTED_MAX]]
        more = ", ..." if len(partitions) > LISTED_MAX else ""
        self._note(STEP_EVENT, name, f"assignment chosen: partition {', '.join(listed)}{more}")
        self._note(STEP_EVENT, name, f"live brokers: {_ids(sorted(alive))}")
        chosen = [
            f"{one.partition_id} led by {one.leader} with ISR {_ids(one.isr)}"
            if one.leader != NO_LEADER
            else f"{one.partition_id} without a leader"
            for one in partitions[:LISTED_MAX]
        ]
        self._note(STEP_EVENT, name, f"leader and ISR chosen: partition {', '.join(chosen)}{more}")

    def on_record(self, record: Message) -> None:
        """It is written, or was found so, and the image has not replayed it yet."""
        reported = described_record(self._image, record)
        if reported is not None:
            self._note(*reported, getattr(record, "reason", None) or "")
        follow: Callable[[ControllerSteps, Any], None] | None = _FOLLOW.get(type(record))
        if follow is not None:
            follow(self, record)

    def _on_topic(self, record: TopicRecord) -> None:
        self._note(STEP_EVENT, record.name, f"assignment written: {topic_path(record.name)}")

    def _on_partition(self, record: PartitionRecord) -> None:
        topic = self._image.topics_by_id.get(Uuid(record.topic_id))
        if topic is None:
            return
        index, book = record.partition_id, self.book
        reason = record.reason or f"replicas {_ids(record.replicas)} are assigned"
        if not topic.has(index):
            book.move_partition(topic.name, index, NEW, reason)
            here = [(topic.name, index, broker) for broker in record.replicas]
            book.add_replicas(here, reason)
        self._note(
            STEP_EVENT,
            f"{topic.name}-{index}",
            f"state written: leader {record.leader}, ISR {_ids(record.isr)}, leader epoch"
            f" {record.leader_epoch}, controller epoch {self._epoch()}:"
            f" {state_path(topic.name, index)}",
        )
        self._lead(topic.name, index, record.leader, record.reason or "its first leader")

    def _lead(self, topic: str, index: int, leader: int, reason: str) -> None:
        if leader != NO_LEADER:
            self.book.move_partition(topic, index, ONLINE, reason)
        elif self.book.partition(topic, index).state == ONLINE:
            self.book.move_partition(topic, index, OFFLINE, reason)

    def _on_partition_change(self, record: PartitionChangeRecord) -> None:
        before = self._image.partition(Uuid(record.topic_id), record.partition_id)
        if before is None:
            return
        name, index, reason = before.topic, before.partition, record.reason or ""
        if record.leader not in (LEADER_UNCHANGED, before.leader):
            self._lead(name, index, record.leader, reason)
        if record.replicas is not None:
            joins = [one for one in record.replicas if one not in before.replicas]
            leaves = [one for one in before.replicas if one not in record.replicas]
            self.book.add_replicas([(name, index, one) for one in joins], reason)
            left = [(name, index, one) for one in leaves]
            self.book.move_replicas(left, OFFLINE, reason, are_leaving=True)

    def _on_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._image.topics_by_id.get(Uuid(record.topic_id))
        if topic is not None:
            self._note(STEP_EVENT, topic.name, f"written: {DELETE_TOPICS}/{topic.name}")
            replicas = {index: list(ids) for index, ids in enumerate(topic.replicas) if ids}
            self.book.begin_deletion(topic.name, replicas, "the topic is being deleted")

    def _on_registration(self, record: RegisterBrokerRecord) -> None:
        broker, known = record.broker_id, self._image.brokers.get(record.broker_id)
        if known is not None and not known.fenced:
            self.book.on_broker_gone(broker, f"broker {broker} was started again")

    def _on_broker_change(self, record: BrokerRegistrationChangeRecord) -> None:
        if record.fenced > 0:
            reason = record.reason or f"broker {record.broker_id} is fenced"
            self.book.on_broker_gone(record.broker_id, reason)

    # -- orders and answers ------------------------------------------------------------------------

    def on_sent(self, broker: int, request: Message) -> None:
        """A step for each topic that is being created or deleted."""
        book = self.book
        if isinstance(request, LeaderAndIsrRequest):
            for topic_state in request.topic_states:
                if book.is_being_created(topic_state.topic_name):
                    self._sent(
                        "LeaderAndIsr",
                        broker,
                        topic_state.topic_name,
                        len(topic_state.partition_states),
                    )
        elif isinstance(request, UpdateMetadataRequest):
            for topic in request.topic_states:
                name = topic.topic_name
                if book.is_being_created(name) or book.is_being_deleted(name):
                    self._sent("UpdateMetadata", broker, name, len(topic.partition_states))
        elif isinstance(request, StopReplicaRequest):
            for one in request.topic_states:
                self._sent("StopReplica", broker, one.topic_name, len(one.partition_states))

    def _sent(self, api: str, broker: int, topic: str, partitions: int) -> None:
        self._note(STEP_EVENT, topic, f"{api} sent to broker {broker}: {partitions} partitions")

    def on_replicas(self, broker: int, offline: Iterable[Key], online: Iterable[Key]) -> None:
        """The broker has answered LeaderAndIsr."""
        back, failed = self._names(broker, online), self._names(broker, offline)
        self.book.move_replicas(back, ONLINE, f"broker {broker} has answered LeaderAndIsr")
        self.book.move_replicas(failed, OFFLINE, f"their log directory on broker {broker} failed")

    def _names(self, broker: int, keys: Iterable[Key]) -> Iterable[tuple[str, int, int]]:
        topics = self._image.topics_by_id
        for topic_id, index in keys:
            topic = topics.get(topic_id)
            if topic is not None and topic.has(index) and broker in topic.replicas[index]:
                yield topic.name, index, broker

    # -- deletions ---------------------------------------------------------------------------------

    def on_deletion_found(self, name: str, replicas: Replicas) -> None:
        """A predecessor has begun it."""
        if not self.book.is_being_deleted(name):
            self._note(
                STEP_EVENT, name, f"found below {DELETE_TOPICS}", "a predecessor began the deletion"
            )
            self.book.begin_deletion(name, replicas, "the topic is being deleted")

    def on_stopping(self, broker: int, partitions: Iterable[tuple[str, int]]) -> None:
        """StopReplica goes to the broker."""
        here = [(name, index, broker) for name, index in partitions]
        self.book.delete_replicas(here, f"StopReplica goes to broker {broker}")

    def on_ineligible(
        self, broker: int, partitions: Iterable[tuple[str, int]], reason: str
    ) -> None:
        here = [(name, index, broker) for name, index in partitions]
        self.book.move_replicas(here, DELETION_INELIGIBLE, reason)

    def on_znodes_gone(self, name: str) -> None:
        self._note(STEP_EVENT, name, f"znodes gone: {topic_path(name)} and below, its configuration,"
                   f" {DELETE_TOPICS}/{name}")  # fmt: skip
        self.book.end_deletion(name, "the znodes of the topic are gone")


_FOLLOW: Mapping[type[Message], Callable[[ControllerSteps, Any], None]] = {
    TopicRecord: ControllerSteps._on_topic,
    PartitionRecord: ControllerSteps._on_partition,
    PartitionChangeRecord: ControllerSteps._on_partition_change,
    RemoveTopicRecord: ControllerSteps._on_remove_topic,
    RegisterBrokerRecord: ControllerSteps._on_registration,
    BrokerRegistrationChangeRecord: ControllerSteps._on_broker_change,
}


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
