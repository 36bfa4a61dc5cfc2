"""An image as a sequence of records, and back.

`snapshot_values` keeps the state of an image at one moment and encodes it in chunks. The records are in
Kafka's order (features, brokers, controllers, topics with partitions, configs, quotas, producer
ids, ACLs, SCRAM, tokens), at the image's own metadata.version. Replaying them gives an equal image
(reasons are not kept). The quorum adds the batches and the control records (SnapshotHeader,
SnapshotFooter).

Source: Kafka's ``ImageWriter``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from barnabas.metadata import features as levels
from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.registrations import BrokerRegistration, ControllerRegistration
from barnabas.metadata.image.topic import ORDINARY, Topic
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
from barnabas.wire.schema import Message


class Moment:
    """The content of an image at one moment, kept while the image moves on.

    Tables are copied flat: replay replaces their values and never changes them in place. Topics are
    shared until they change, then copied, so taking a moment costs little however many
    partitions there are. `close` ends it.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self.metadata_version = image.metadata_version
        self.features = dict(image.features)
        self.brokers = dict(image.brokers)
        self.controllers = dict(image.controllers)
        self.configs = dict(image.configs)
        self.client_quotas = dict(image.client_quotas)
        self.next_producer_id = image.next_producer_id
        self.zk_migration_state = image.zk_migration_state
        self.acls = dict(image.acls)
        self.scram_credentials = dict(image.scram_credentials)
        self.delegation_tokens = dict(image.delegation_tokens)
        self._topics = {topic.slot: topic for topic in image.topics_by_id.values()}
        self._copied: set[int] = set()
        image.captures.append(self)

    def before_change(self, topic: Topic) -> None:
        """The image calls this before it changes `topic`: the first time, the moment takes a copy."""
        slot = topic.slot
        if slot in self._topics and slot not in self._copied:
            self._copied.add(slot)
            self._topics[slot] = self._topics[slot].copy()

    def slots(self) -> list[int]:
        """Slots of the topics, without those that were forgotten."""
        return list(self._topics)

    def topic(self, slot: int) -> Topic:
        """The topic at this moment, valid until the image changes again: call this each time."""
        return self._topics[slot]

    def forget(self, slot: int) -> None:
        """Let go of a topic that was read."""
        del self._topics[slot]

    def close(self) -> None:
        if self in self._image.captures:
            self._image.captures.remove(self)


RECORDS_PER_SLICE = 300
"""Records encoded in one go, in less than two milliseconds."""


def snapshot_values(
    image: MetadataImage, chunk: int = RECORDS_PER_SLICE
) -> Iterator[list[bytes]] | None:
    """The committed part of `image` at this moment as record values, `chunk` at a time; later changes of the
    image do not affect it. None during a metadata transaction: no snapshot ends within one."""
    if image.transaction is not None:
        return None
    undone = image.undo_uncommitted()
    moment = Moment(image)
    for records, last_offset, epoch, append_ms in undone:
        image.apply_uncommitted(records, last_offset, epoch, append_ms)
    chunks = _chunks(moment, chunk)
    next(chunks)  # started, so that dropping the generator, used or not, ends the moment
    return chunks


def _chunks(moment: Moment, size: int) -> Iterator[list[bytes]]:
    try:
        yield []
        records = moment_records(moment)
        while taken := list(islice(records, size)):
            yield encode_records(taken, moment.metadata_version)
    finally:
        moment.close()


def image_records(image: MetadataImage) -> Iterator[Message]:
    """All of `image` as records, uncommitted changes included."""
    moment = Moment(image)
    try:
        yield from moment_records(moment)
    finally:
        moment.close()


def moment_records(image: Moment) -> Iterator[Message]:
    """The records of one moment, lazily."""
    yield from _feature_records(image)
    for broker_id in sorted(image.brokers):
        yield _broker_record(image, image.brokers[broker_id])
    if image.metadata_version >= levels.CONTROLLER_REGISTRATION_SINCE:
        for controller_id in sorted(image.controllers):
            yield _controller_record(image.controllers[controller_id])
    for slot in image.slots():
        topic = image.topic(slot)
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        yield from _partition_records(image, slot)
        image.forget(slot)
    for (kind, name), entries in sorted(image.configs.items()):
        for key, value in sorted(entries.items()):
            yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
    yield from _access_records(image)


def load_records(image: MetadataImage, records: Iterable[Message], offset: int, epoch: int) -> None:
    """Replace the content of `image` by a snapshot; `offset` and `epoch` are of its last contained record."""
    image.reset()
    image.replay_batch(records, offset, epoch)


def _feature_records(image: Moment) -> Iterator[Message]:
    named = [levels.METADATA_VERSION] if levels.METADATA_VERSION in image.features else []
    for name in named + sorted(set(image.features) - {levels.METADATA_VERSION}):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def _broker_record(image: Moment, broker: BrokerRegistration) -> RegisterBrokerRecord:
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
        registered_ms=broker.registered_ms,
        is_migrating_zk_broker=broker.is_on_zookeeper,
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
        registered_ms=controller.registered_ms,
    )


def _partition_records(image: Moment, slot: int) -> Iterator[PartitionRecord]:
    """One record per partition. The topic is looked up for each: the moment may have copied it meanwhile."""
    with_directories = image.metadata_version >= levels.DIRECTORIES_SINCE
    with_elr = image.metadata_version >= levels.ELR_SINCE
    index = -1
    while (index := index + 1) < len((topic := image.topic(slot)).replicas):
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


def _access_records(image: Moment) -> Iterator[Message]:
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
