"""One function per metadata record: what it does to an image, and what takes it back.

The functions neither decide nor refuse. Each notes in `image.changes` what moved, and puts into
`image.undo`, where that is a list, a function with arguments that restores exactly what was there
before (undoing runs newest first). A record that names something unknown is counted and
changes nothing.

Source: Kafka's metadata deltas (TopicDelta, ClusterDelta, ConfigurationDelta, FeaturesDelta, ...)
and PartitionRegistration.merge; KIP-868 for transactions; KIP-966 for ELR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from barnabas.metadata.features import KRAFT_VERSION, METADATA_VERSION
from barnabas.metadata.image.bulk_isr_shrinks import Shrinks, replay_shrinks
from barnabas.metadata.image.bulk_partition_records import Rows
from barnabas.metadata.image.known_configs import is_kept
from barnabas.metadata.image.registrations import (
    BrokerRegistration,
    ControllerRegistration,
    ListenerEndpoint,
    VersionRange,
)
from barnabas.metadata.image.topic import LEADER_UNCHANGED, ORDINARY, Rare, Topic
from barnabas.metadata.records.abort_transaction_record import AbortTransactionRecord
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.begin_transaction_record import BeginTransactionRecord
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.clear_elr_record import ClearElrRecord
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.end_transaction_record import EndTransactionRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.fence_broker_record import FenceBrokerRecord
from barnabas.metadata.records.no_op_record import NoOpRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.register_controller_record import RegisterControllerRecord
from barnabas.metadata.records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.records.unfence_broker_record import UnfenceBrokerRecord
from barnabas.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.metadata.records.unregister_controller_record import UnregisterControllerRecord
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.metadata.records.zk_migration_state_record import ZkMigrationStateRecord
from barnabas.types import DIRECTORY_MIGRATING, Uuid
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.metadata.image.image import MetadataImage

TRANSACTION_RECORDS: tuple[type[Message], ...] = (
    BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord,
)  # fmt: skip
TOPIC_RESOURCE = 2
ABSENT: Any = object()


# -- topics and partitions ---------------------------------------------------------------------


def _topic(image: MetadataImage, record: TopicRecord) -> None:
    if record.topic_id in image.topics_by_id:
        image.ignored += 1
        return
    topic = Topic(Uuid(record.topic_id), record.name, len(image.slots))
    image.slots.append(topic)
    image.topics_by_id[topic.id] = topic
    before = image.topics_by_name.get(topic.name)
    image.topics_by_name[topic.name] = topic
    _note_name(image, topic.name)
    if image.undo is not None:
        image.undo.append((_drop_topic, image, topic, before))
    if image.changes is not None:
        image.changes.topics_created[topic.id] = None


def _note_name(image: MetadataImage, name: str) -> None:
    if "." in name or "_" in name:
        image.collisions.setdefault(name.replace(".", "_"), {})[name] = None


def _forget_name(image: MetadataImage, name: str) -> None:
    plain = name.replace(".", "_")
    alike = image.collisions.get(plain)
    if alike is not None:
        alike.pop(name, None)
        if not alike:
            del image.collisions[plain]


def _drop_topic(image: MetadataImage, topic: Topic, before: Topic | None) -> None:
    del image.topics_by_id[topic.id]
    _put(image.topics_by_name, topic.name, ABSENT if before is None else before)
    if before is None:
        _forget_name(image, topic.name)
    # Undo runs newest first, so this is the last slot. Keys of later topics that a reader still holds
    # are keys of topics that are gone, and applying the same records again gives the same keys.
    image.slots.pop()
    if image.changes is not None:
        _note_deleted(image, topic)


def _remove_topic(image: MetadataImage, record: RemoveTopicRecord) -> None:
    topic = image.topics_by_id.pop(Uuid(record.topic_id), None)
    if topic is None:
        image.ignored += 1
        return
    image.slots[topic.slot] = None
    named = image.topics_by_name.get(topic.name)
    if named is topic:
        del image.topics_by_name[topic.name]
        _forget_name(image, topic.name)
    resource = (TOPIC_RESOURCE, topic.name)
    configs = image.configs.pop(resource, None) if named is topic else None
    image.config_version += 1
    _forget_members(image, topic, 0)
    if image.undo is not None:
        image.undo.append((_restore_topic, image, topic, named, configs))
    if image.changes is not None:
        _note_deleted(image, topic)
        if configs is not None:
            image.changes.configs[resource] = None


def _restore_topic(
    image: MetadataImage, topic: Topic, named: Topic | None, configs: dict[str, str] | None
) -> None:
    image.topics_by_id[topic.id] = topic
    if named is topic:
        image.topics_by_name[topic.name] = topic
        _note_name(image, topic.name)
    image.slots[topic.slot] = topic
    image.broker_partitions.add_rows(topic.replicas, topic.slot, 0)
    if configs is not None:
        image.configs[TOPIC_RESOURCE, topic.name] = configs
    if image.changes is not None:
        image.changes.topics_deleted.pop(topic.id, None)
        image.changes.topics_created[topic.id] = None


def _note_deleted(image: MetadataImage, topic: Topic) -> None:
    changes = image.changes
    assert changes is not None
    changes.topics_created.pop(topic.id, None)
    changes.topics_deleted[topic.id] = topic.name


def _partition(image: MetadataImage, record: PartitionRecord) -> None:
    topic = image.topics_by_id.get(record.topic_id)
    if topic is None or record.partition_id < 0:
        image.ignored += 1
        return
    replicas = tuple(record.replicas)
    rare = ORDINARY
    if (
        record.adding_replicas
        or record.removing_replicas
        or record.leader_recovery_state
        or record.eligible_leader_replicas
        or record.last_known_elr
    ):
        rare = Rare(
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
            record.leader_recovery_state,
        )
    _place(
        image,
        topic,
        record.partition_id,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        replicas,
        tuple(record.isr),
        record.directories or (DIRECTORY_MIGRATING,) * len(replicas),
        rare,
    )


def _rows(image: MetadataImage, rows: Rows) -> None:
    """Replay the PartitionRecords that `rows` were read from."""
    topic, first = image.topics_by_id.get(rows.topic_id), rows.first
    if topic is None:
        image.ignored += len(rows)
        return
    if first != len(topic):
        for at in range(len(rows)):
            _place(image, topic, first + at, *rows.row(at), ORDINARY)
        return
    if image.captures:
        _before_change(image, topic)
    if image.undo is not None:
        _undo_new_row(image.undo, image, topic, first)
    topic.extend(rows)
    image.broker_partitions.add_rows(rows.replicas, topic.slot, first)
    if image.changes is not None and topic.id not in image.changes.topics_created:
        created = range(first, first + len(rows))
        image.changes.partitions.update({(topic.id, index): None for index in created})


def _place(  # noqa: PLR0913 - columns of a partition
    image: MetadataImage,
    topic: Topic,
    index: int,
    leader: int,
    leader_epoch: int,
    partition_epoch: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    directories: Sequence[bytes],
    rare: Rare,
) -> None:
    """Set a whole row, new or present."""
    rows = len(topic.replicas)
    replicas = image.intern(replicas)
    if image.captures:
        _before_change(image, topic)
    isr = replicas if isr == replicas else image.intern(isr)
    assigned = image.intern_uuids(directories)
    if index >= rows:
        if image.undo is not None:
            _undo_new_row(image.undo, image, topic, rows)
        if index > rows:
            topic.grow(index)
        topic.append(leader, leader_epoch, partition_epoch, replicas, isr, assigned)
    else:
        if image.undo is not None:
            image.undo.append((_set_row, image, topic, index, *_row(topic, index)))
        image.broker_partitions.remove(topic.replicas[index])
        topic.rare.pop(index, None)
        topic.leader[index] = leader
        topic.leader_epoch[index] = leader_epoch
        topic.partition_epoch[index] = partition_epoch
        topic.replicas[index] = replicas
        topic.isr[index] = isr
        topic.directories[index] = assigned
    if rare is not ORDINARY:
        topic.rare[index] = image.intern_rare(rare)
    image.broker_partitions.add(replicas, topic.slot, index)
    if image.changes is not None and topic.id not in image.changes.topics_created:
        image.changes.partitions[topic.id, index] = None


def _undo_new_row(undo: list[Any], image: MetadataImage, topic: Topic, rows: int) -> None:
    """Rows that follow each other are taken back together."""
    if undo:
        last = undo[-1]
        if last[0] is _drop_rows and last[2] is topic:
            return
    undo.append((_drop_rows, image, topic, rows))


def _before_change(image: MetadataImage, topic: Topic) -> None:
    for capture in image.captures:
        capture.before_change(topic)


def _drop_rows(image: MetadataImage, topic: Topic, rows: int) -> None:
    _before_change(image, topic)
    _forget_members(image, topic, rows)
    for index in [index for index in topic.rare if index >= rows]:
        del topic.rare[index]
    topic.shrink(rows)


def _forget_members(image: MetadataImage, topic: Topic, rows: int) -> None:
    """Forget the members of the rows from `rows` on."""
    for broker, count in Counter(chain.from_iterable(topic.replicas[rows:])).items():
        image.broker_partitions.remove((broker,), count)


def _row(topic: Topic, index: int) -> tuple[Any, ...]:
    return (
        topic.leader[index],
        topic.leader_epoch[index],
        topic.partition_epoch[index],
        topic.replicas[index],
        topic.isr[index],
        topic.directories[index],
        topic.rare.get(index, ORDINARY),
    )


def _set_row(  # noqa: PLR0913 - columns of a partition
    image: MetadataImage,
    topic: Topic,
    index: int,
    leader: int,
    leader_epoch: int,
    partition_epoch: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    directories: tuple[Uuid, ...],
    rare: Rare,
) -> None:
    _before_change(image, topic)
    topic.leader[index] = leader
    topic.leader_epoch[index] = leader_epoch
    topic.partition_epoch[index] = partition_epoch
    if topic.replicas[index] is not replicas:
        _assign(image, topic, index, replicas)
    topic.isr[index] = isr
    topic.directories[index] = directories
    _set_rare(topic, index, rare)
    if image.changes is not None:
        image.changes.partitions[topic.id, index] = None


def _assign(image: MetadataImage, topic: Topic, index: int, replicas: tuple[int, ...]) -> None:
    before = topic.replicas[index]
    topic.replicas[index] = replicas
    image.broker_partitions.remove([broker for broker in before if broker not in replicas])
    image.broker_partitions.add(
        [broker for broker in replicas if broker not in before], topic.slot, index
    )


def _set_rare(topic: Topic, index: int, rare: Rare) -> None:
    if rare == ORDINARY:
        topic.rare.pop(index, None)
    else:
        topic.rare[index] = rare


def _partition_change(image: MetadataImage, record: PartitionChangeRecord) -> None:
    topic = image.topics_by_id.get(record.topic_id)
    index = record.partition_id
    if topic is None or not 0 <= index < len(topic.replicas):
        image.ignored += 1
        return
    if image.captures:
        _before_change(image, topic)
    if image.undo is not None:
        rare = topic.rare.get(index, ORDINARY)
        image.undo.append(
            (
                _set_row, image, topic, index, topic.leader[index], topic.leader_epoch[index],
                topic.partition_epoch[index], topic.replicas[index], topic.isr[index],
                topic.directories[index], rare,
            )
        )  # fmt: skip
    if record.leader != LEADER_UNCHANGED:
        topic.leader[index] = record.leader
        topic.leader_epoch[index] += 1
    topic.partition_epoch[index] += 1
    if record.replicas is not None:
        _assign(image, topic, index, image.intern(tuple(record.replicas)))
    if record.isr is not None:
        isr = tuple(record.isr)
        replicas = topic.replicas[index]
        topic.isr[index] = replicas if isr == replicas else image.intern(isr)
    if record.directories is not None:
        topic.directories[index] = image.intern_uuids(record.directories)
    elif len(topic.directories[index]) != len(topic.replicas[index]):
        # Before log directories stood in the metadata.
        assigned = (DIRECTORY_MIGRATING,) * len(topic.replicas[index])
        topic.directories[index] = image.intern_uuids(assigned)
    if (
        record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
        or record.adding_replicas is not None
        or record.removing_replicas is not None
        or record.leader_recovery_state >= 0
    ):
        _change_rare(image, topic, index, record)
    if image.changes is not None and topic.id not in image.changes.topics_created:
        image.changes.partitions[topic.id, index] = None


def _change_rare(
    image: MetadataImage, topic: Topic, index: int, record: PartitionChangeRecord
) -> None:
    """Interned: after a mass failure a hundred thousand partitions have the same few ELRs."""
    rare = topic.rare.get(index, ORDINARY)

    def either(new: Sequence[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
        return old if new is None else image.intern(tuple(new))

    changed = Rare(
        either(record.eligible_leader_replicas, rare.elr),
        either(record.last_known_elr, rare.last_known_elr),
        either(record.adding_replicas, rare.adding),
        either(record.removing_replicas, rare.removing),
        record.leader_recovery_state if record.leader_recovery_state >= 0 else rare.recovery,
    )
    _set_rare(topic, index, image.intern_rare(changed))


def _clear_elr(image: MetadataImage, record: ClearElrRecord) -> None:
    """Clear the ELR of one topic, or of every topic where the name is empty (min.insync.replicas changed)."""
    if record.topic_name:
        named = image.topics_by_name.get(record.topic_name)
        topics = [] if named is None else [named]
    else:
        topics = list(image.topics_by_id.values())
    for topic in topics:
        cleared = [i for i, rare in topic.rare.items() if rare.elr or rare.last_known_elr]
        for index in sorted(cleared):
            change = PartitionChangeRecord(
                partition_id=index,
                topic_id=topic.id,
                eligible_leader_replicas=(),
                last_known_elr=(),
            )
            _partition_change(image, change)


# -- brokers and controllers -------------------------------------------------------------------


def _set_broker(image: MetadataImage, broker_id: int, broker: BrokerRegistration | None) -> None:
    before = image.brokers.get(broker_id)
    if image.undo is not None:
        image.undo.append((_put_broker, image, broker_id, before))
    _put_broker(image, broker_id, broker)


def _put_broker(image: MetadataImage, broker_id: int, broker: BrokerRegistration | None) -> None:
    _put(image.brokers, broker_id, ABSENT if broker is None else broker)
    image.broker_version += 1
    if image.changes is not None:
        image.changes.brokers[broker_id] = None


def _register_broker(image: MetadataImage, record: RegisterBrokerRecord) -> None:
    broker = BrokerRegistration(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation=Uuid(record.incarnation_id),
        listeners=_listeners(record.end_points),
        features=_ranges(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=tuple(sorted(Uuid(d) for d in record.log_dirs)),
        cordoned=tuple(sorted(Uuid(d) for d in record.cordoned_log_dirs or ())),
        registered_ms=record.registered_ms,
        is_on_zookeeper=record.is_migrating_zk_broker,
    )
    _set_broker(image, broker.id, broker)


def _listeners(end_points: Sequence[Any]) -> dict[str, ListenerEndpoint]:
    return {e.name: ListenerEndpoint(e.host, e.port, e.security_protocol) for e in end_points}


def _ranges(features: Sequence[Any]) -> dict[str, VersionRange]:
    return {
        f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in features
    }


def _unregister_broker(image: MetadataImage, record: UnregisterBrokerRecord) -> None:
    if record.broker_id in image.brokers:
        _set_broker(image, record.broker_id, None)
    else:
        image.ignored += 1


def _fence(image: MetadataImage, record: FenceBrokerRecord) -> None:
    _change_broker(image, record.id, record.epoch, fenced=True)


def _unfence(image: MetadataImage, record: UnfenceBrokerRecord) -> None:
    _change_broker(image, record.id, record.epoch, fenced=False)


def _broker_change(image: MetadataImage, record: BrokerRegistrationChangeRecord) -> None:
    fields: dict[str, Any] = {}
    if record.fenced:
        fields["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        fields["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
    if record.log_dirs:
        fields["directories"] = tuple(sorted(Uuid(d) for d in record.log_dirs))
    if record.cordoned_log_dirs is not None:
        fields["cordoned"] = tuple(sorted(Uuid(d) for d in record.cordoned_log_dirs))
    _change_broker(image, record.broker_id, record.broker_epoch, **fields)


def _change_broker(image: MetadataImage, broker_id: int, epoch: int, **fields: Any) -> None:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        image.ignored += 1
        return
    _set_broker(image, broker_id, replace(broker, **fields))


def _register_controller(image: MetadataImage, record: RegisterControllerRecord) -> None:
    controller = ControllerRegistration(
        id=record.controller_id,
        incarnation=Uuid(record.incarnation_id),
        zk_migration_ready=record.zk_migration_ready,
        listeners=_listeners(record.end_points),
        features=_ranges(record.features),
        registered_ms=record.registered_ms,
    )
    _set(image, image.controllers, controller.id, controller)
    if image.changes is not None:
        image.changes.controllers[controller.id] = None


def _unregister_controller(image: MetadataImage, record: UnregisterControllerRecord) -> None:
    if record.controller_id not in image.controllers:
        image.ignored += 1
        return
    _set(image, image.controllers, record.controller_id, ABSENT)
    if image.changes is not None:
        image.changes.controllers[record.controller_id] = None


# -- values by name ----------------------------------------------------------------------------


def _put(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is ABSENT:
        table.pop(key, None)
    else:
        table[key] = value


def _set(image: MetadataImage, table: dict[Any, Any], key: Any, value: Any) -> None:
    """Set (or with ABSENT delete) one entry of a table of the image, undoably."""
    if image.undo is not None:
        image.undo.append((_put, table, key, table.get(key, ABSENT)))
    _put(table, key, value)


def _config(image: MetadataImage, record: ConfigRecord) -> None:
    if not is_kept(record.resource_type, record.name):
        image.ignored += 1
        return
    resource = (record.resource_type, record.resource_name)
    entries = dict(image.configs.get(resource, {}))
    if record.value is None:
        entries.pop(record.name, None)
    else:
        entries[record.name] = record.value
    _set(image, image.configs, resource, entries if entries else ABSENT)
    image.config_version += 1
    if image.changes is not None:
        image.changes.configs[resource] = None


def _feature(image: MetadataImage, record: FeatureLevelRecord) -> None:
    if record.name == KRAFT_VERSION:  # the quorum's; older releases of Kafka wrote it here as well
        image.ignored += 1
        return
    gone = record.feature_level == 0 and record.name != METADATA_VERSION
    _set(image, image.features, record.name, ABSENT if gone else record.feature_level)
    if image.changes is not None:
        image.changes.features = True


def _producer_ids(image: MetadataImage, record: ProducerIdsRecord) -> None:
    _set_attribute(image, "next_producer_id", record.next_producer_id)
    if image.changes is not None:
        image.changes.producer_ids = True


def _zk_migration(image: MetadataImage, record: ZkMigrationStateRecord) -> None:
    _set_attribute(image, "zk_migration_state", record.zk_migration_state)


def _set_attribute(image: MetadataImage, name: str, value: object) -> None:
    if image.undo is not None:
        image.undo.append((setattr, image, name, getattr(image, name)))
    setattr(image, name, value)


def _quota(image: MetadataImage, record: ClientQuotaRecord) -> None:
    entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
    limits = dict(image.client_quotas.get(entity, {}))
    if record.remove:
        limits.pop(record.key, None)
    else:
        limits[record.key] = record.value
    _access(image, image.client_quotas, entity, limits if limits else ABSENT)
    image.quota_version += 1


def _access(image: MetadataImage, table: dict[Any, Any], key: Any, value: Any) -> None:
    _set(image, table, key, value)
    if image.changes is not None:
        image.changes.access = True


def _acl(image: MetadataImage, record: AccessControlEntryRecord) -> None:
    _access(image, image.acls, record.id, record)
    image.acl_version += 1


def _remove_acl(image: MetadataImage, record: RemoveAccessControlEntryRecord) -> None:
    _access(image, image.acls, record.id, ABSENT)
    image.acl_version += 1


def _scram(image: MetadataImage, record: UserScramCredentialRecord) -> None:
    _access(image, image.scram_credentials, (record.mechanism, record.name), record)


def _remove_scram(image: MetadataImage, record: RemoveUserScramCredentialRecord) -> None:
    _access(image, image.scram_credentials, (record.mechanism, record.name), ABSENT)


def _token(image: MetadataImage, record: DelegationTokenRecord) -> None:
    _access(image, image.delegation_tokens, record.token_id, record)


def _remove_token(image: MetadataImage, record: RemoveDelegationTokenRecord) -> None:
    _access(image, image.delegation_tokens, record.token_id, ABSENT)


# -- transactions ------------------------------------------------------------------------------


def _begin(image: MetadataImage, record: BeginTransactionRecord) -> None:
    if image.transaction is not None:
        image.ignored += 1
        return
    _set_attribute(image, "transaction_start", -1)
    _set_attribute(image, "transaction", [])


def _end(image: MetadataImage, record: EndTransactionRecord) -> None:
    records = image.transaction
    if records is None:
        image.ignored += 1
        return
    _set_attribute(image, "transaction", None)
    for waiting in records:
        REPLAY[type(waiting)](image, waiting)


def _abort(image: MetadataImage, record: AbortTransactionRecord) -> None:
    if image.transaction is None:
        image.ignored += 1
        return
    _set_attribute(image, "transaction", None)


def _no_op(image: MetadataImage, record: NoOpRecord) -> None:
    """Moves the offset only."""


REPLAY: dict[type[Any], Callable[[MetadataImage, Any], None]] = {
    Rows: _rows,
    Shrinks: replay_shrinks,
    TopicRecord: _topic,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition_change,
    ClearElrRecord: _clear_elr,
    RegisterBrokerRecord: _register_broker,
    UnregisterBrokerRecord: _unregister_broker,
    FenceBrokerRecord: _fence,
    UnfenceBrokerRecord: _unfence,
    BrokerRegistrationChangeRecord: _broker_change,
    RegisterControllerRecord: _register_controller,
    UnregisterControllerRecord: _unregister_controller,
    ConfigRecord: _config,
    FeatureLevelRecord: _feature,
    ProducerIdsRecord: _producer_ids,
    ZkMigrationStateRecord: _zk_migration,
    ClientQuotaRecord: _quota,
    AccessControlEntryRecord: _acl,
    RemoveAccessControlEntryRecord: _remove_acl,
    UserScramCredentialRecord: _scram,
    RemoveUserScramCredentialRecord: _remove_scram,
    DelegationTokenRecord: _token,
    RemoveDelegationTokenRecord: _remove_token,
    BeginTransactionRecord: _begin,
    EndTransactionRecord: _end,
    AbortTransactionRecord: _abort,
    NoOpRecord: _no_op,
}
