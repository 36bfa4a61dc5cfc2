"""All that the znodes of a cluster say, kept as values: records → operations, znodes → records.

`load` takes znodes, `records` gives the metadata records that say the same, `apply` takes records and
gives the operations that write them. Operations are in an order in which each finds its parent, and name
no versions: the journal knows those. What a znode does not say comes back as Kafka's migration sets it: a
partition's epoch is the version of its state znode, an ACL's id follows from its content.

Not written from records: registrations of brokers (ephemeral, by their own sessions), `/feature` of
releases that ZooKeeper clusters do not have (`metadata.version`), and what is KRaft's alone.

Source: `kafka.zk.migration.*`, ``org.apache.kafka.metadata.migration.KRaftMigrationZkWriter``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.scram import TYPES
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.acl_znodes import (
    AclChangeZnode,
    AclPattern,
    AclRule,
    AclZnode,
    acl_id,
    acl_of_record,
    acl_record,
)
from barnabas.zookeeper.layout.broker_znodes import BrokerZnode
from barnabas.zookeeper.layout.cluster_state_znodes import (
    FEATURE,
    PRODUCER_IDS,
    ControllerEpochZnode,
    FeatureZnode,
    ProducerIdBlockZnode,
)
from barnabas.zookeeper.layout.config_znodes import (
    CONFIG,
    DEFAULT,
    ConfigChangeZnode,
    ConfigZnode,
    desanitize,
    entity_of,
    resource_of,
    sanitize,
)
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.pending_znodes import PendingZnodes
from barnabas.zookeeper.layout.quota_texts import quota_text, quota_value, scram_record, scram_text
from barnabas.zookeeper.layout.token_znodes import (
    DelegationTokenZnode,
    TokenChangeZnode,
)
from barnabas.zookeeper.layout.topic_znodes import (
    PartitionAssignment,
    PartitionStateZnode,
    TopicZnode,
    partition_path,
)
from barnabas.zookeeper.layout.znode_table import ZnodeValue, decode_znode
from barnabas.zookeeper.operations import NodeData, Operation

_ENTITY_FOLDERS = {"user": "users", "client-id": "clients", "ip": "ips"}
PRODUCER_ID_BLOCK = 1000
MECHANISMS = {number: mechanism for mechanism, number in TYPES.items()}


@dataclass(slots=True)
class TopicEntry:
    """A topic's znode, and the states of its partitions with their versions."""

    znode: TopicZnode
    states: dict[int, PartitionStateZnode] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    version: int = 0
    """The version of the topic's znode."""
    written: dict[int, int] = field(default_factory=dict)
    """zxid in which each partition's state was written, as it was read."""


class ClusterLayout:
    """The znodes of one cluster. `controller_epoch` is written into every state znode that changes."""

    def __init__(self, controller_epoch: int = 0) -> None:
        self.controller_epoch = controller_epoch
        self.topics: dict[str, TopicEntry] = {}
        self.topic_names: dict[Uuid, str] = {}
        self.brokers: dict[int, tuple[BrokerZnode, int]] = {}
        """With the zxid of their creation."""
        self.configs: dict[str, dict[str, str]] = {}
        """The configurations by entity, as in `ConfigZnode`."""
        self.acls: dict[AclPattern, dict[Uuid, AclRule]] = {}
        self.acl_patterns: dict[Uuid, AclPattern] = {}
        self.tokens: dict[str, DelegationTokenZnode] = {}
        self.features: FeatureZnode | None = None
        self.producer_ids: ProducerIdBlockZnode | None = None
        self._pending = PendingZnodes()

    # -- znodes → values -------------------------------------------------------------------------

    def load(
        self,
        znodes: Mapping[str, NodeData],
        on_malformed: Callable[[MalformedZnode], None] | None = None,
    ) -> None:
        """Take what ZooKeeper has, path by path. A znode that cannot be read is left out where `on_malformed`
        takes its error; else raises `MalformedZnode`."""
        for path in sorted(znodes):
            data, stat = znodes[path]
            self._pending.written[path] = data
            try:
                value = decode_znode(path, data)
                if isinstance(value, ConfigZnode):
                    deque(_config_records(value.entity, value.config), maxlen=0)  # are all valid?
            except MalformedZnode as error:
                if on_malformed is None:
                    raise
                on_malformed(error)
                continue
            self._apply_znode(value, stat.version, stat.czxid)
            if isinstance(value, PartitionStateZnode) and value.topic in self.topics:
                self.topics[value.topic].written[value.partition] = stat.mzxid

    def has(self, *paths: str) -> None:
        """Take note of znodes that are there and hold nothing of this."""
        for path in paths:
            self._pending.written.setdefault(path, b"")

    def forget_config(self, entity: str) -> None:
        """Its znode is gone."""
        self.configs.pop(entity, None)
        self._pending.written.pop(f"{CONFIG}/{entity}", None)

    def _apply_znode(self, value: ZnodeValue, version: int, czxid: int) -> None:
        match value:
            case TopicZnode():
                topic = self.topics.setdefault(value.topic, TopicEntry(value))
                topic.znode, topic.version = value, version
                if value.topic_id is not None:
                    self.topic_names[value.topic_id] = value.topic
            case PartitionStateZnode() if value.topic in self.topics:
                topic = self.topics[value.topic]
                topic.states[value.partition] = value
                topic.epochs[value.partition] = version
            case ConfigZnode():
                self.configs[value.entity] = dict(value.config)
            case AclZnode():
                for rule in value.rules:
                    self._add_acl(acl_id(value.pattern, rule), value.pattern, rule)
            case BrokerZnode():
                self.brokers[value.broker_id] = (value, czxid)
            case DelegationTokenZnode():
                self.tokens[value.token_id] = value
            case FeatureZnode():
                self.features = value
            case ProducerIdBlockZnode():
                self.producer_ids = value
            case ControllerEpochZnode():
                self.controller_epoch = value.epoch

    # -- values → records ------------------------------------------------------------------------

    def records(self, *, elected_only: bool = False) -> Iterator[Message]:
        """The metadata records that say what the znodes say, in an order in which they can be replayed.
        `elected_only`: without partitions that have no state znode, and topics that have no id."""
        if self.features is not None:
            for name, level in sorted(self.features.levels.items()):
                yield FeatureLevelRecord(name=name, feature_level=level)
        for _, (broker, czxid) in sorted(self.brokers.items()):
            yield broker.record(czxid)
        for topic in sorted(self.topics):
            if not elected_only or self.topics[topic].znode.topic_id is not None:
                yield from _topic_records(self.topics[topic], elected_only)
        for entity in sorted(self.configs):
            yield from _config_records(entity, self.configs[entity])
        if self.producer_ids is not None:
            yield ProducerIdsRecord(
                broker_id=self.producer_ids.broker_id, next_producer_id=self.producer_ids.last + 1
            )
        for pattern in sorted(self.acls, key=lambda one: one.path):
            for number, rule in self.acls[pattern].items():
                yield acl_record(number, pattern, rule)
        for token in sorted(self.tokens):
            yield self.tokens[token].record()

    # -- records → operations --------------------------------------------------------------------

    def apply(self, records: Iterable[Message], *, notify: bool = True) -> list[Operation]:
        """The operations that write `records`. `notify`: with the sequential znodes that tell brokers of
        changed configurations, ACLs and tokens. Records without a znode give none."""
        for record in records:
            _APPLY.get(type(record), _pass)(self, record)
        return self._pending.take_operations(notify=notify)

    def _apply_topic(self, record: TopicRecord) -> None:
        znode = TopicZnode(record.name, record.topic_id)
        self.topics[record.name] = TopicEntry(znode)
        self.topic_names[record.topic_id] = record.name
        self._pending.write(
            ConfigZnode(
                f"topics/{record.name}", self.configs.setdefault(f"topics/{record.name}", {})
            )
        )
        self._pending.write(znode)

    def remove_topic(self, name: str) -> None:
        """Its znodes are to go with the next operations of `apply`."""
        topic = self.topics.pop(name)
        topic_id = topic.znode.topic_id
        if topic_id is not None and self.topic_names.get(topic_id) == name:
            del self.topic_names[topic_id]
        self.configs.pop(f"topics/{name}", None)
        under = f"{topic.znode.path}/"
        for path in [*self._pending.written, *self._pending.wanted]:
            if path.startswith(under):
                self._pending.wanted[path] = None
        self._pending.wanted[topic.znode.path] = self._pending.wanted[f"/config/topics/{name}"] = (
            None
        )

    def _apply_partition(self, record: PartitionRecord) -> None:
        topic = self._topic(record.topic_id)
        if topic is None:
            return
        self._assign(
            topic,
            record.partition_id,
            PartitionAssignment(
                tuple(record.replicas),
                tuple(record.adding_replicas),
                tuple(record.removing_replicas),
            ),
        )
        topic.epochs[record.partition_id] = record.partition_epoch
        self._write_state(
            topic,
            PartitionStateZnode(
                topic.znode.topic,
                record.partition_id,
                record.leader,
                record.leader_epoch,
                tuple(record.isr),
                self.controller_epoch,
                record.leader_recovery_state,
            ),
        )

    def _apply_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        number = record.partition_id
        if topic is None or number not in topic.states:
            return
        before = topic.znode.partitions[number]
        after = PartitionAssignment(
            _changed(record.replicas, before.replicas),
            _changed(record.adding_replicas, before.adding),
            _changed(record.removing_replicas, before.removing),
        )
        if after != before:
            self._assign(topic, number, after)
        state = replace(
            topic.states[number],
            isr=_changed(record.isr, topic.states[number].isr),
            controller_epoch=self.controller_epoch,
        )
        if record.leader != -2:
            state = replace(state, leader=record.leader, leader_epoch=state.leader_epoch + 1)
        if record.leader_recovery_state != -1:
            state = replace(state, leader_recovery_state=record.leader_recovery_state)
        topic.epochs[number] += 1
        self._write_state(topic, state)

    def _topic(self, topic_id: Uuid) -> TopicEntry | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def _assign(self, topic: TopicEntry, number: int, assignment: PartitionAssignment) -> None:
        partitions = {**topic.znode.partitions, number: assignment}
        topic.znode = replace(topic.znode, partitions=partitions)
        self._pending.write(topic.znode)

    def _write_state(self, topic: TopicEntry, state: PartitionStateZnode) -> None:
        topic.states[state.partition] = state
        self._pending.wanted.setdefault(partition_path(state.topic, state.partition), b"")
        self._pending.write(state)

    def _apply_config(self, record: ConfigRecord) -> None:
        entity = entity_of(record.resource_type, record.resource_name)
        if entity is not None:
            self._set_config(entity, record.name, record.value)

    def _apply_quota(self, record: ClientQuotaRecord) -> None:
        entity = _quota_entity(record.entity)
        if entity is not None:
            text = None if record.remove else quota_text(record.key, record.value)
            self._set_config(entity, record.key, text)

    def _apply_scram(
        self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord
    ) -> None:
        text = scram_text(record) if isinstance(record, UserScramCredentialRecord) else None
        self._set_config(f"users/{sanitize(record.name)}", MECHANISMS[record.mechanism], text)

    def _set_config(self, entity: str, key: str, value: str | None) -> None:
        config = self.configs.setdefault(entity, {})
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value
        self._pending.write(ConfigZnode(entity, config))
        self._pending.notify(ConfigChangeZnode(entity))

    def _apply_acl(self, record: AccessControlEntryRecord) -> None:
        pattern, rule = acl_of_record(record)
        self._add_acl(record.id, pattern, rule)
        self._write_acls(pattern)

    def _add_acl(self, number: Uuid, pattern: AclPattern, rule: AclRule) -> None:
        self.acls.setdefault(pattern, {})[number] = rule
        self.acl_patterns[number] = pattern

    def _apply_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        pattern = self.acl_patterns.pop(record.id, None)
        if pattern is not None:
            del self.acls[pattern][record.id]
            self._write_acls(pattern)

    def _write_acls(self, pattern: AclPattern) -> None:
        rules = self.acls[pattern]
        if rules:
            self._pending.write(AclZnode(pattern, tuple(rules.values())))
        else:
            del self.acls[pattern]
            self._pending.wanted[pattern.path] = None
        self._pending.notify(AclChangeZnode(pattern))

    def _apply_token(self, record: DelegationTokenRecord) -> None:
        token = self.tokens[record.token_id] = DelegationTokenZnode.of_record(record)
        self._pending.write(token)
        self._pending.notify(TokenChangeZnode(record.token_id))

    def _apply_remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        token = self.tokens.pop(record.token_id, None)
        if token is not None:
            self._pending.wanted[token.path] = None
            self._pending.notify(TokenChangeZnode(record.token_id))

    def _apply_producer_ids(self, record: ProducerIdsRecord) -> None:
        end = record.next_producer_id
        self.producer_ids = ProducerIdBlockZnode(record.broker_id, end - PRODUCER_ID_BLOCK, end - 1)
        self._pending.wanted[PRODUCER_IDS] = self.producer_ids.encode()

    def _apply_feature(self, record: FeatureLevelRecord) -> None:
        if record.name in ("metadata.version", "kraft.version"):
            return
        levels = dict(self.features.levels) if self.features is not None else {}
        levels[record.name] = record.feature_level
        levels = {name: level for name, level in levels.items() if level > 0}
        self.features = FeatureZnode(levels)
        self._pending.wanted[FEATURE] = self.features.encode()


def _remove_topic(znodes: ClusterLayout, record: RemoveTopicRecord) -> None:
    name = znodes.topic_names.get(record.topic_id)
    if name is not None:
        znodes.remove_topic(name)


def _pass(znodes: ClusterLayout, record: Any) -> None:
    """A record that no znode holds."""


_APPLY: Mapping[type[Message], Callable[[ClusterLayout, Any], None]] = {
    TopicRecord: ClusterLayout._apply_topic,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: ClusterLayout._apply_partition,
    PartitionChangeRecord: ClusterLayout._apply_partition_change,
    ConfigRecord: ClusterLayout._apply_config,
    ClientQuotaRecord: ClusterLayout._apply_quota,
    UserScramCredentialRecord: ClusterLayout._apply_scram,
    RemoveUserScramCredentialRecord: ClusterLayout._apply_scram,
    AccessControlEntryRecord: ClusterLayout._apply_acl,
    RemoveAccessControlEntryRecord: ClusterLayout._apply_remove_acl,
    DelegationTokenRecord: ClusterLayout._apply_token,
    RemoveDelegationTokenRecord: ClusterLayout._apply_remove_token,
    ProducerIdsRecord: ClusterLayout._apply_producer_ids,
    FeatureLevelRecord: ClusterLayout._apply_feature,
}


def _changed(new: Iterable[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _quota_entity(parts: Iterable[EntityData]) -> str | None:
    names = {
        part.entity_type: DEFAULT if part.entity_name is None else sanitize(part.entity_name)
        for part in parts
    }
    if "user" in names and "client-id" in names:
        return f"users/{names['user']}/clients/{names['client-id']}"
    for kind, folder in _ENTITY_FOLDERS.items():
        if kind in names:
            return f"{folder}/{names[kind]}"
    return None


def _topic_records(topic: TopicEntry, elected_only: bool) -> Iterator[Message]:
    znode = topic.znode
    topic_id = znode.topic_id or ZERO_UUID
    yield TopicRecord(name=znode.topic, topic_id=topic_id)
    for number, assignment in sorted(znode.partitions.items()):
        state = topic.states.get(number)
        if state is None and elected_only:
            continue
        if state is None:  # not elected yet: as Kafka's migration begins it
            leader = assignment.replicas[0] if assignment.replicas else -1
            state = PartitionStateZnode(znode.topic, number, leader, 0, assignment.replicas, 0)
        yield PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=assignment.replicas,
            isr=state.isr,
            removing_replicas=assignment.removing,
            adding_replicas=assignment.adding,
            leader=state.leader,
            leader_recovery_state=state.leader_recovery_state,
            leader_epoch=state.leader_epoch,
            partition_epoch=topic.epochs.get(number, 0),
        )


def config_changes(
    entity: str, before: Mapping[str, str], after: Mapping[str, str]
) -> list[Message]:
    """The records of what has changed in the configuration of an entity. Raises `MalformedZnode`."""
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    records = list(_config_records(entity, changed))
    resource = resource_of(entity)
    folder, _, name = entity.partition("/")
    for key in before:
        if key in after:
            continue
        if resource is not None:
            kind, of = resource
            records.append(ConfigRecord(resource_type=kind, resource_name=of, name=key, value=None))
        elif key in TYPES and folder == "users":
            user, mechanism = desanitize(name), TYPES[key]
            records.append(RemoveUserScramCredentialRecord(name=user, mechanism=mechanism))
        else:
            parts = _quota_parts(folder, name)
            records.append(ClientQuotaRecord(entity=parts, key=key, value=0.0, remove=True))
    return records


def _config_records(entity: str, config: Mapping[str, str]) -> Iterator[Message]:
    resource = resource_of(entity)
    if resource is not None:
        kind, name = resource
        for key, value in config.items():
            yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        return
    folder, _, name = entity.partition("/")
    path = f"/config/{entity}"
    parts = _quota_parts(folder, name)
    for key, value in config.items():
        if key in TYPES and folder == "users":
            yield scram_record(path, desanitize(name), key, value)
        else:
            yield ClientQuotaRecord(entity=parts, key=key, value=quota_value(path, key, value))


def _quota_parts(folder: str, name: str) -> tuple[EntityData, ...]:
    user, _, client = name.partition("/clients/")
    if folder == "users" and client:
        return (_quota_part("user", user), _quota_part("client-id", client))
    kind = next(kind for kind, known in _ENTITY_FOLDERS.items() if known == folder)
    return (_quota_part(kind, name),)


def _quota_part(kind: str, name: str) -> EntityData:
    return EntityData(entity_type=kind, entity_name=None if name == DEFAULT else desanitize(name))
