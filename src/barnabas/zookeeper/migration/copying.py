"""Znodes → the records with which a quorum begins; an image → the operations that bring znodes to the same.

Every partition begins without a leader on the other side, in the epoch that it had: who starts first of its
ISR is elected in the next one, so that no broker leads in an epoch in which it has written before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from barnabas.limits import ZookeeperBounds
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.known_configs import is_kept
from barnabas.metadata.image.snapshot import image_records
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.register_controller_record import RegisterControllerRecord
from barnabas.metadata.records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.wire.schema import Message
from barnabas.zookeeper.cut_operations import take_operations
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER_EPOCH
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout, config_changes
from barnabas.zookeeper.layout.config_znodes import resource_of
from barnabas.zookeeper.operations import CheckVersion, Multi, NodeData

NO_LEADER = -1
_OF_KRAFT_ALONE = (FeatureLevelRecord, RegisterBrokerRecord, RegisterControllerRecord)


def records_of(znodes: Mapping[str, NodeData]) -> list[Message]:
    """What a quorum begins with, behind its feature levels. Raises `MalformedZnode`."""
    layout = ClusterLayout()
    layout.load(znodes)
    found = []
    for record in layout.records():
        if isinstance(record, _OF_KRAFT_ALONE):
            continue
        if isinstance(record, PartitionRecord):
            record.leader = NO_LEADER
        found.append(record)
    return found


def way_back(znodes: Mapping[str, NodeData], image: MetadataImage) -> list[Multi]:
    """The transactions after which `znodes` say what `image` says, each conditional on the controller's
    epoch. Raises `MalformedZnode`."""
    layout = ClusterLayout()
    layout.load(znodes)
    check = CheckVersion(CONTROLLER_EPOCH, znodes[CONTROLLER_EPOCH].stat.version)
    left = deque(layout.apply(_changes(layout, image), notify=False))
    found = []
    while left:
        found.append(Multi((check, *take_operations(left, ZookeeperBounds(), besides=1))))
    return found


def _changes(layout: ClusterLayout, after: MetadataImage) -> Iterator[Message]:
    """Removals, then all that there is; what is written already gives no operation. A topic is another one
    where its id is, or its name."""
    for name, topic in list(layout.topics.items()):
        wanted_topic = after.topics_by_name.get(name)
        if wanted_topic is None or wanted_topic.id != topic.znode.topic_id:
            layout.remove_topic(name)
    for token in list(layout.tokens):
        if token not in after.delegation_tokens:
            yield RemoveDelegationTokenRecord(token_id=token)
    for acl_id in list(layout.acl_patterns):
        yield RemoveAccessControlEntryRecord(id=acl_id)
    wanted = _configs_of(after)
    for entity, config in list(layout.configs.items()):
        known = {key: value for key, value in config.items() if _is_kept(entity, key)}
        yield from config_changes(entity, known, wanted.get(entity, {}))
    for record in image_records(after):
        if isinstance(record, _OF_KRAFT_ALONE):
            continue
        if isinstance(record, PartitionRecord):
            record.leader, record.isr = NO_LEADER, _isr_without_elr(record)
        yield record


def _is_kept(entity: str, key: str) -> bool:
    """Whether KRaft has such a configuration; others are left as they are."""
    resource = resource_of(entity)
    return resource is None or is_kept(resource[0], key)


def _isr_without_elr(record: PartitionRecord) -> Sequence[int]:
    """Znodes know no eligible leader replicas (KIP-966): where the ISR is empty it is these that may lead."""
    return record.isr or record.eligible_leader_replicas or record.last_known_elr or ()


def _configs_of(image: MetadataImage) -> dict[str, dict[str, str]]:
    """Configurations, quotas and users as znodes hold them, by entity."""
    layout = ClusterLayout()
    layout.apply(
        record
        for record in image_records(image)
        if not isinstance(record, AccessControlEntryRecord | ProducerIdsRecord)
    )
    return {entity: dict(config) for entity, config in layout.configs.items()}
