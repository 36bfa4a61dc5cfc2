"""The orders of a controller (LeaderAndIsr, UpdateMetadata, StopReplica) as records for the broker's
image.

Only what differs from the image becomes a record, so that an order which comes twice changes nothing,
and one that is older than the image (a lower leader epoch, or the same with a lower partition epoch)
neither. The partition epoch is the version of the partition's state znode. Other brokers' epochs are
not in these requests: their registrations have epoch `EPOCH_UNKNOWN`, which any fetch may claim; the
controller compares.

Source: Kafka's ``ZkMetadataCache.updateMetadata`` and ``ReplicaManager.becomeLeaderOrFollower``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.metadata.image.topic import ORDINARY, Rare, Topic
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import DIRECTORY_LOST, DIRECTORY_MIGRATING, ZERO_UUID, Uuid
from barnabas.wire.messages.kafka39.leader_and_isr_request import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
)
from barnabas.wire.messages.kafka39.stop_replica_request import StopReplicaRequest
from barnabas.wire.messages.kafka39.update_metadata_request import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from barnabas.wire.schema import Message

LEADER_DURING_DELETE = -2
"""In UpdateMetadata: the partition's topic is being deleted."""
FULL = 2
"""Type of an UpdateMetadata that has every topic (KIP-866): others were deleted meanwhile."""
EPOCH_UNKNOWN = -1


class Incarnation(NamedTuple):
    """This broker's present registration."""

    node_id: int
    broker_epoch: int
    id: Uuid


def new_topics(image: MetadataImage, request: Message) -> list[str]:
    """The topics whose configurations a broker needs before it follows the order: those that are new to it,
    or knows as deleted topics of that name."""
    if not isinstance(request, (LeaderAndIsrRequest, UpdateMetadataRequest)):
        return []
    return [
        topic.topic_name
        for topic in request.topic_states
        if Uuid(topic.topic_id) not in image.topics_by_id
        and any(state.leader != LEADER_DURING_DELETE for state in topic.partition_states)
    ]


def lacks_topic_ids(request: Message) -> bool:
    """Whether the request is of a controller of Kafka's with an inter.broker.protocol.version below 2.8."""
    if not isinstance(request, (LeaderAndIsrRequest, UpdateMetadataRequest)):
        return False
    if request.ungrouped_partition_states:
        return True
    return any(Uuid(topic.topic_id) == ZERO_UUID for topic in request.topic_states)


def of_leader_and_isr(image: MetadataImage, request: LeaderAndIsrRequest) -> list[Message]:
    records: list[Message] = []
    for topic in request.topic_states:
        known = _named(image, topic.topic_name, Uuid(topic.topic_id), records)
        for state in topic.partition_states:
            record = _row(known, Uuid(topic.topic_id), state, state.partition_epoch)
            if record is not None:
                record.adding_replicas = list(state.adding_replicas)
                record.removing_replicas = list(state.removing_replicas)
                record.leader_recovery_state = state.leader_recovery_state
                record.directories = _known_directories(known, record)
                if known is None or not _is_same(known, record):
                    records.append(record)
    return records


def of_update_metadata(
    image: MetadataImage, request: UpdateMetadataRequest, me: Incarnation
) -> list[Message]:
    records = _brokers(image, request.live_brokers, me, request.broker_epoch)
    live = {broker.id for broker in request.live_brokers}
    if request.type == FULL:
        named = {Uuid(topic.topic_id) for topic in request.topic_states}
        lacking = [topic_id for topic_id in image.topics_by_id if topic_id not in named]
        records += [RemoveTopicRecord(topic_id=topic_id) for topic_id in lacking]
    for topic in request.topic_states:
        states = topic.partition_states
        if all(state.leader == LEADER_DURING_DELETE for state in states):
            records += _removed(image, topic.topic_name, Uuid(topic.topic_id), len(states))
            continue
        known = _named(image, topic.topic_name, Uuid(topic.topic_id), records)
        for state in states:
            record = _row(known, Uuid(topic.topic_id), state, state.zk_version)
            if record is not None:
                record.directories = _directories(
                    record, [b for b in state.offline_replicas if b in live], me
                )
                rare = _rare_of(known, record)
                record.adding_replicas, record.removing_replicas = rare.adding, rare.removing
                record.leader_recovery_state = rare.recovery
                if known is None or not _is_same(known, record):
                    records.append(record)
    return records


def of_stop_replica(
    image: MetadataImage, request: StopReplicaRequest, node_id: int
) -> list[Message]:
    """The records for partitions to delete where the image still counts this broker among the replicas."""
    records: list[Message] = []
    for name, index, is_deleted in stopped_partitions(request):
        topic = image.topics_by_name.get(name)
        if not is_deleted or topic is None or not topic.has(index):
            continue
        state = topic.partition(index)
        if node_id not in state.replicas:
            continue
        others = [broker for broker in state.replicas if broker != node_id]
        if others:
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic.id,
                    replicas=others,
                    isr=[broker for broker in state.isr if broker != node_id],
                    leader=-1 if state.leader == node_id else state.leader,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                )
            )
        elif len(topic) == 1:
            records.append(RemoveTopicRecord(topic_id=topic.id))
    return records


def stopped_partitions(request: StopReplicaRequest) -> list[tuple[str, int, bool]]:
    """(topic, index, whether its log goes) in the form of every version."""
    found = [
        (topic.topic_name, state.partition_index, state.delete_partition)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    found += [
        (topic.name, index, request.delete_partitions)
        for topic in request.topics
        for index in topic.partition_indexes
    ]
    found += [
        (one.topic_name, one.partition_index, request.delete_partitions)
        for one in request.ungrouped_partitions
    ]
    return found


# -- brokers -----------------------------------------------------------------------------------


def _brokers(
    image: MetadataImage, live: Sequence[UpdateMetadataBroker], me: Incarnation, epoch: int
) -> list[Message]:
    records: list[Message] = []
    named = {broker.id for broker in live}
    for broker in sorted(live, key=lambda b: b.id):
        if broker.id != me.node_id:
            record = _registration(broker, EPOCH_UNKNOWN, ZERO_UUID)
        elif epoch == me.broker_epoch:
            record = _registration(broker, me.broker_epoch, me.id)
        else:
            continue  # of an incarnation before this one
        known = image.brokers.get(broker.id)
        if known is None or known.fenced or not _is_registered(known, record):
            records.append(record)
    for broker_id in sorted(image.brokers):
        known = image.brokers[broker_id]
        if broker_id not in named and not known.fenced:
            records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker_id, broker_epoch=known.epoch, fenced=1
                )
            )
    return records


def _registration(
    broker: UpdateMetadataBroker, epoch: int, incarnation: Uuid
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        broker_epoch=epoch,
        incarnation_id=incarnation,
        end_points=[
            BrokerEndpoint(
                name=at.listener, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for at in broker.endpoints
        ],
        rack=broker.rack,
        fenced=False,
    )


def _is_registered(known: BrokerRegistration, record: RegisterBrokerRecord) -> bool:
    listeners = {at.name: (at.host, at.port, at.security_protocol) for at in record.end_points}
    present = {name: (at.host, at.port, at.protocol) for name, at in known.listeners.items()}
    return (known.epoch, known.incarnation, known.rack, present) == (
        record.broker_epoch,
        record.incarnation_id,
        record.rack,
        listeners,
    )


# -- topics --------------------------------------------------------------------------------------


def _named(image: MetadataImage, name: str, topic_id: Uuid, records: list[Message]) -> Topic | None:
    """The topic as the image has it; where it has none with this id, the records that make it."""
    known = image.topics_by_name.get(name)
    if known is not None and known.id == topic_id:
        return known
    if known is not None:  # deleted, and created again
        records.append(RemoveTopicRecord(topic_id=known.id))
    records.append(TopicRecord(name=name, topic_id=topic_id))
    return None


def _removed(image: MetadataImage, name: str, topic_id: Uuid, partitions: int) -> list[Message]:
    """None where the broker has another topic of that name by now."""
    known = image.topics_by_name.get(name)
    if known is None or partitions < len(known) or topic_id not in (known.id, ZERO_UUID):
        return []
    return [RemoveTopicRecord(topic_id=known.id)]


def _row(
    known: Topic | None,
    topic_id: Uuid,
    state: LeaderAndIsrPartitionState | UpdateMetadataPartitionState,
    partition_epoch: int,
) -> PartitionRecord | None:
    """None where the image is newer."""
    index = state.partition_index
    if known is not None and known.has(index):
        reported = (state.leader_epoch, partition_epoch)
        if reported < (known.leader_epoch[index], known.partition_epoch[index]):
            return None
    if not state.replicas:
        return None
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=partition_epoch,
    )


def _rare_of(known: Topic | None, record: PartitionRecord) -> Rare:
    """UpdateMetadata does not say them: what LeaderAndIsr has said holds while the replicas are the same."""
    index = record.partition_id
    if known is None or not known.has(index) or known.replicas[index] != tuple(record.replicas):
        return ORDINARY
    return known.rare.get(index, ORDINARY)


def _directories(record: PartitionRecord, offline: Sequence[int], me: Incarnation) -> list[Uuid]:
    """Other brokers' replicas in failed log directories: they join no ISR, and clients learn of them. This
    broker knows its own."""
    return [
        DIRECTORY_LOST if b in offline and b != me.node_id else DIRECTORY_MIGRATING
        for b in record.replicas
    ]


def _known_directories(known: Topic | None, record: PartitionRecord) -> list[Uuid]:
    """LeaderAndIsr does not say them: they are as UpdateMetadata has said."""
    index = record.partition_id
    said = {}
    if known is not None and known.has(index):
        said = dict(zip(known.replicas[index], known.directories[index], strict=True))
    return [said.get(broker, DIRECTORY_MIGRATING) for broker in record.replicas]


def _is_same(known: Topic, record: PartitionRecord) -> bool:
    index = record.partition_id
    if not known.has(index):
        return False
    rare = known.rare.get(index, ORDINARY)
    return (
        known.leader[index],
        known.leader_epoch[index],
        known.partition_epoch[index],
        known.replicas[index],
        known.isr[index],
        known.directories[index],
        rare.adding,
        rare.removing,
        rare.recovery,
    ) == (
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.replicas),
        tuple(record.isr),
        tuple(record.directories or ()),
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        record.leader_recovery_state,
    )
