"""An image as a sequence of records, and back.

`image_records` writes what replaying into an empty image needs, in Kafka's order (features,
brokers, controllers, topics with partitions, configs, quotas, producer ids, ACLs, SCRAM, tokens),
at the image's own metadata.version. Replaying its output gives an equal image (reasons are not
kept). The control records and batches around them (SnapshotHeader, SnapshotFooter) are the
quorum's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.metadata import features as levels
from barnabas.metadata.image import MetadataImage
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from barnabas.metadata.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.records.zk_migration_state_record import ZkMigrationStateRecord
from barnabas.metadata.registrations import BrokerRegistration, ControllerRegistration
from barnabas.metadata.topic import ORDINARY, Topic
from barnabas.wire.schema import Message


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Lazily, so that a caller may write it in slices; the image must not move meanwhile."""
    yield from _feature_records(image)
    for broker_id in sorted(image.brokers):
        yield _broker_record(image, image.brokers[broker_id])
    if image.metadata_version >= levels.CONTROLLER_REGISTRATION_SINCE:
        for controller_id in sorted(image.controllers):
            yield _controller_record(image.controllers[controller_id])
    for topic in image.topics_by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        yield from partition_records(image, topic)
    for (kind, name), entries in sorted(image.configs.items()):
        for key, value in sorted(entries.items()):
            yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
    yield from _access_records(image)


def load_records(image: MetadataImage, records: Iterable[Message], offset: int, epoch: int) -> None:
    """Replace what `image` holds by a snapshot whose last contained record is at `offset`."""
    image.reset()
    image.replay_batch(records, offset, epoch)


def _feature_records(image: MetadataImage) -> Iterator[Message]:
    named = [levels.METADATA_VERSION] if levels.METADATA_VERSION in image.features else []
    for name in named + sorted(set(image.features) - {levels.METADATA_VERSION}):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def _broker_record(image: MetadataImage, broker: BrokerRegistration) -> RegisterBrokerRecord:
    directories = image.metadata_version >= levels.DIRECTORIES_SINCE
    return RegisterBrokerRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        incarnation_id=broker.incarnation,
        end_points=[
            BrokerEndpoint(name=name, host=to.host, port=to.port, security_protocol=to.protocol)
            for name, to in broker.listeners.items()
        ],
        features=[
            BrokerFeature(
                name=name,
                min_supported_version=levels_.lowest,
                max_supported_version=levels_.highest,
            )
            for name, levels_ in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories if directories else (),
        cordoned_log_dirs=(
            broker.cordoned
            if broker.cordoned and image.metadata_version >= levels.CORDONED_SINCE
            else None
        ),
    )


def _controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=name, host=to.host, port=to.port, security_protocol=to.protocol)
            for name, to in controller.listeners.items()
        ],
        features=[
            ControllerFeature(
                name=name, min_supported_version=of.lowest, max_supported_version=of.highest
            )
            for name, of in controller.features.items()
        ],
    )


def partition_records(image: MetadataImage, topic: Topic) -> Iterator[PartitionRecord]:
    """One record per partition of a topic."""
    with_directories = image.metadata_version >= levels.DIRECTORIES_SINCE
    with_elr = image.metadata_version >= levels.ELR_SINCE
    for index in range(len(topic)):
        if not topic.replicas[index]:
            continue
        rare = topic.rare.get(index, ORDINARY)
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic.id,
            replicas=topic.replicas[index],
            isr=topic.isr[index],
            removing_replicas=rare.removing,
            adding_replicas=rare.adding,
            leader=topic.leader[index],
            leader_recovery_state=rare.recovery,
            leader_epoch=topic.leader_epoch[index],
            partition_epoch=topic.partition_epoch[index],
            directories=topic.directories[index] if with_directories else (),
            eligible_leader_replicas=rare.elr or None if with_elr else None,
            last_known_elr=rare.last_known_elr or None if with_elr else None,
        )


def _access_records(image: MetadataImage) -> Iterator[Message]:
    for entity, limits in image.client_quotas.items():
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, value in sorted(limits.items()):
            yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(
            broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id
        )
    if image.zk_migration_state:
        yield ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)
    yield from image.acls.values()
    yield from image.scram_credentials.values()
    yield from image.delegation_tokens.values()
