"""The parts of LeaderAndIsr and UpdateMetadata, and what is read from the answer.

Source: Kafka's ``AbstractControllerBrokerRequestBatch``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.metadata.image.topic import PartitionState
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.kafka39.leader_and_isr_request import LeaderAndIsrPartitionState
from barnabas.wire.messages.kafka39.leader_and_isr_response import LeaderAndIsrResponse
from barnabas.wire.messages.kafka39.update_metadata_request import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)

LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2
Key = tuple[Uuid, int]
"""Topic id and index."""


class Removed(NamedTuple):
    """A topic that is being deleted, as brokers learn of it."""

    name: str
    topic_id: Uuid
    partitions: int


def leader_state(
    state: PartitionState, controller_epoch: int, is_new: bool
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=state.partition,
        controller_epoch=controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding),
        removing_replicas=list(state.removing),
        is_new=is_new,
        leader_recovery_state=state.recovery,
    )


def metadata_state(
    state: PartitionState,
    controller_epoch: int,
    brokers: Mapping[int, BrokerRegistration],
    failed: Collection[int],
) -> UpdateMetadataPartitionState:
    """`failed`: the brokers of replicas in failed log directories."""
    return UpdateMetadataPartitionState(
        partition_index=state.partition,
        controller_epoch=controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(state.replicas),
        offline_replicas=[
            b for b in state.replicas if b not in brokers or brokers[b].fenced or b in failed
        ],
    )


def removed_topic(removed: Removed, controller_epoch: int) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic_name=removed.name,
        topic_id=removed.topic_id,
        partition_states=[
            UpdateMetadataPartitionState(
                partition_index=index,
                controller_epoch=controller_epoch,
                leader=LEADER_DURING_DELETE,
                leader_epoch=EPOCH_DURING_DELETE,
            )
            for index in range(removed.partitions)
        ],
    )


def offline_and_online(
    answer: LeaderAndIsrResponse, image: MetadataImage
) -> tuple[list[Key], list[Key]]:
    """Replicas in failed log directories, and the others. Versions below 5 name topics, not their ids."""
    offline: list[Key] = []
    online: list[Key] = []
    found = [(Uuid(t.topic_id), one) for t in answer.topics for one in t.partition_errors]
    by_name = image.topics_by_name
    for one in answer.partition_errors:
        if one.topic_name in by_name:
            found.append((by_name[one.topic_name].id, one))
    for topic_id, one in found:
        if one.error_code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR):
            (offline if one.error_code else online).append((topic_id, one.partition_index))
    return offline, online


def live_broker(known: BrokerRegistration) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=known.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=at.port, host=at.host, listener=name, security_protocol=at.protocol
            )
            for name, at in known.listeners.items()
        ],
        rack=known.rack,
    )
