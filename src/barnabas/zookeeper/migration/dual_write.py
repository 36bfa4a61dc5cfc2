"""The znodes of a cluster whose metadata a quorum decides: what is written so that they follow the log.

`DualWriter` knows what the znodes hold. It compares that with the committed image, for everything or for what
has moved, and gives the operations between the two. A partition's state znode is written once for each change
of its partition epoch, so that the znode's version stays that epoch, on which a controller of ZooKeeper mode
relies after the way back. State znodes are conditional on their versions; the caller makes all of it
conditional on the controller's claim.

An ISR that is empty, of a quorum with eligible leader replicas (KIP-966), is written as these: znodes have no
other place for who may lead.

Source: Kafka 3.9's ``KRaftMigrationZkWriter``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT, TOPIC, MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.known_configs import is_kept
from barnabas.metadata.image.topic import NO_LEADER, ORDINARY, Topic
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.acl_znodes import acl_of_record
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout, TopicEntry, config_changes
from barnabas.zookeeper.layout.config_znodes import entity_of, resource_of
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS
from barnabas.zookeeper.layout.token_znodes import DelegationTokenZnode
from barnabas.zookeeper.layout.topic_znodes import state_path
from barnabas.zookeeper.operations import Create, Delete, NodeData, Operation, SetData

MIN_ISR = "min.insync.replicas"
WRITES_MAX = 1_000
"""The most writes of one state znode: a greater distance between its version and the partition epoch is
left."""
Partition = tuple[str, int]


@dataclass(slots=True)
class Writes:
    """Operations in order, and what brokers have to give up once they are done."""

    operations: list[Operation] = field(default_factory=list)
    removed: list[tuple[str, Uuid, int]] = field(default_factory=list)
    """Topics that go: name, id, how many partitions they had."""
    stopped: list[tuple[int, Partition]] = field(default_factory=list)
    """Brokers that lose their replica of a partition."""
    assigned: dict[tuple[Uuid, int], Sequence[int]] = field(default_factory=dict)
    """The brokers that have a replica of the partition for the first time, by topic id and index."""


class _Versions(NamedTuple):
    """The version of one partition's state znode, -1 where there is none; and the partition epoch that it
    becomes."""

    topic: str
    partition: int
    version: int
    epoch: int


class DualWriter:
    """The content of the znodes, and what follows from the image."""

    def __init__(
        self,
        znodes: Mapping[str, NodeData],
        controller_epoch: int,
        *,
        is_stopped: bool = False,
    ) -> None:
        """`is_stopped`: no broker runs. Then partitions are written without a leader, versions of state
        znodes do not matter, and no change is notified. Raises `MalformedZnode`."""
        self._is_stopped = is_stopped
        self.layout = ClusterLayout()
        self.layout.load(znodes)
        self.layout.controller_epoch = controller_epoch
        self._asked = [path for path in znodes if path.startswith(f"{DELETE_TOPICS}/")]
        self._new: dict[str, None] = {}
        self._gone: list[str] = []
        """Topics of the znodes that are to go with the next write."""

    def everything(self, image: MetadataImage) -> Writes:
        """After which the znodes say what `image` says. Requests for deletions end: topics that the log does
        not have are deleted."""
        changes = ImageChanges(access=True, producer_ids=True)
        gone = self._gone = [name for name in self.layout.topics if self._is_other(name, image)]
        for topic in image.topics_by_id.values():
            if topic.name in gone or topic.name not in self.layout.topics:
                changes.topics_created[topic.id] = None
                continue
            changes.partitions.update(
                ((topic.id, index), None) for index in range(len(topic)) if topic.has(index)
            )
        resources = (resource_of(entity) for entity in self.layout.configs)
        changes.configs = dict.fromkeys([*image.configs, *filter(None, resources)])
        writes = self.of(image, changes)
        writes.operations += [Delete(path) for path in self._asked]
        self._asked = []
        return writes

    def _is_other(self, name: str, image: MetadataImage) -> bool:
        """Whether the topic of the znodes is none of the log's. Where no broker runs it is written again also
        if it has more partitions, or if another one has its id."""
        znode, wanted = self.layout.topics[name].znode, image.topics_by_name.get(name)
        if wanted is None or wanted.id != znode.topic_id:
            return True
        is_alone = self.layout.topic_names.get(wanted.id) == name
        return self._is_stopped and not (is_alone and all(map(wanted.has, znode.partitions)))

    def of(self, image: MetadataImage, changes: ImageChanges) -> Writes:
        """After which the znodes say what `image` says of what has moved."""
        writes = Writes()
        deleted = map(self.layout.topic_names.get, changes.topics_deleted)
        gone, self._gone = [*self._gone, *filter(None, deleted)], []
        for name in gone:  # other deleted topics came and went between two writes
            self._delete_topic(name, writes)
        keys = dict(changes.partitions)
        self._new = {}
        for topic_id in changes.topics_created:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and topic_id not in self.layout.topic_names:
                self._new[topic.name] = None
            if topic is not None:
                keys.update(((topic_id, i), None) for i in range(len(topic)) if topic.has(i))
        records = [*self._config_records(image, changes), *self._topic_records(image, keys, writes)]
        if changes.access:
            records += [*self._client_records(image), *self._acl_records(image)]
            records += self._token_records(image)
        records += self._producer_records(image)
        behind = {} if self._is_stopped else self._behind(image, keys)
        for operation in self.layout.apply(records, notify=not self._is_stopped):
            versions = behind.pop(operation.path, None)
            if versions is None:
                writes.operations.append(operation)
            else:
                writes.operations += self._as_often(operation, versions)
        for versions in behind.values():
            if versions.version < versions.epoch:  # what has moved is nothing that znodes say
                writes.operations += self._as_often(None, versions)
        return writes

    # -- topics ----------------------------------------------------------------------------------

    def _delete_topic(self, name: str, writes: Writes) -> None:
        znode = self.layout.topics[name].znode
        if znode.topic_id is not None:
            writes.removed.append((name, znode.topic_id, len(znode.partitions)))
        for number, assignment in znode.partitions.items():
            writes.stopped += ((broker, (name, number)) for broker in assignment.replicas)
        self.layout.remove_topic(name)
        writes.operations += self.layout.apply(())

    def _topic_records(
        self, image: MetadataImage, keys: Iterable[tuple[Uuid, int]], writes: Writes
    ) -> Iterator[Message]:
        for name in self._new:
            yield TopicRecord(name=name, topic_id=image.topics_by_name[name].id)
        for topic_id, number in keys:
            topic = image.topics_by_id.get(topic_id)
            if topic is None or not topic.has(number):
                continue
            record = _partition_record(topic, number)
            if self._is_stopped:
                record.leader = NO_LEADER
            entry = None if topic.name in self._new else self.layout.topics.get(topic.name)
            if entry is not None and _is_written(entry, record):
                continue
            known: Sequence[int] = ()
            if entry is not None and number in entry.znode.partitions:
                known = entry.znode.partitions[number].replicas
            gone = sorted(set(known) - set(record.replicas))
            writes.stopped += ((broker, (topic.name, number)) for broker in gone)
            writes.assigned[topic_id, number] = [b for b in record.replicas if b not in known]
            yield record

    def _behind(
        self, image: MetadataImage, keys: Iterable[tuple[Uuid, int]]
    ) -> dict[str, _Versions]:
        """The versions that are behind, by the path of a state znode."""
        found = {}
        for topic_id, number in keys:
            topic = image.topics_by_id.get(topic_id)
            if topic is None or not topic.has(number):
                continue
            entry = None if topic.name in self._new else self.layout.topics.get(topic.name)
            version = -1 if entry is None else entry.epochs.get(number, -1)
            epoch = topic.partition_epoch[number]
            found[state_path(topic.name, number)] = _Versions(topic.name, number, version, epoch)
        return found

    def _as_often(self, operation: Operation | None, versions: _Versions) -> Iterator[Operation]:
        """A state znode's write, once for each partition epoch that its version lacks."""
        name, number, version, epoch = versions
        entry = self.layout.topics[name]
        path, data = state_path(name, number), entry.states[number].encode()
        if version < 0:
            yield operation or Create(path, data)
            version = 0
        elif operation is not None:
            yield SetData(path, data, version)
            version += 1
        for again in range(version, min(epoch, version + WRITES_MAX)):
            yield SetData(path, data, again)
            version = again + 1
        entry.epochs[number] = version

    # -- configurations, clients -----------------------------------------------------------------

    def _config_records(self, image: MetadataImage, changes: ImageChanges) -> Iterator[Message]:
        for kind, name in changes.configs:
            entity = entity_of(kind, name)
            if entity is None or (kind == TOPIC and name not in image.topics_by_name):
                continue
            present = self.layout.configs.get(entity, {})
            # Keys that KRaft does not have stay in the znodes.
            known = {key: value for key, value in present.items() if is_kept(kind, key)}
            wanted = image.config(kind, name)
            if (kind, name) == (BROKER, CLUSTER_DEFAULT) and MIN_ISR not in present:
                # With it a quorum of eligible leader replicas begins; brokers have it in their files.
                wanted = {key: value for key, value in wanted.items() if key != MIN_ISR}
            yield from config_changes(entity, known, wanted)

    def _client_records(self, image: MetadataImage) -> Iterator[Message]:
        """Quotas and SCRAM users."""
        wanted = ClusterLayout()
        wanted.apply(
            [*_quota_records(image), *cast("Iterable[Message]", image.scram_credentials.values())]
        )
        for entity in {**self.layout.configs, **wanted.configs}:
            if resource_of(entity) is None:
                present = dict(self.layout.configs.get(entity, {}))
                yield from config_changes(entity, present, wanted.configs.get(entity, {}))

    def _acl_records(self, image: MetadataImage) -> Iterator[Message]:
        entries = cast("Iterable[AccessControlEntryRecord]", image.acls.values())
        wanted = {acl_of_record(record): record for record in entries}
        present = {
            (pattern, rule): number
            for pattern, rules in self.layout.acls.items()
            for number, rule in rules.items()
        }
        for content, number in present.items():
            if content not in wanted:
                yield RemoveAccessControlEntryRecord(id=number)
        for content, record in wanted.items():
            if content not in present:
                yield record

    def _token_records(self, image: MetadataImage) -> Iterator[Message]:
        wanted = cast("Mapping[str, DelegationTokenRecord]", image.delegation_tokens)
        for token in self.layout.tokens:
            if token not in wanted:
                yield RemoveDelegationTokenRecord(token_id=token)
        for token, record in wanted.items():
            if self.layout.tokens.get(token) != DelegationTokenZnode.of_record(record):
                yield record

    def _producer_records(self, image: MetadataImage) -> Iterator[Message]:
        present = self.layout.producer_ids
        if image.next_producer_id > (0 if present is None else present.last + 1):
            yield ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id)


def _partition_record(topic: Topic, number: int) -> PartitionRecord:
    rare = topic.rare.get(number, ORDINARY)
    return PartitionRecord(
        partition_id=number,
        topic_id=topic.id,
        replicas=topic.replicas[number],
        isr=topic.isr[number] or rare.elr or rare.last_known_elr,
        adding_replicas=rare.adding,
        removing_replicas=rare.removing,
        leader=topic.leader[number],
        leader_recovery_state=rare.recovery,
        leader_epoch=topic.leader_epoch[number],
        partition_epoch=topic.partition_epoch[number],
    )


def _is_written(entry: TopicEntry, record: PartitionRecord) -> bool:
    state = entry.states.get(record.partition_id)
    assigned = entry.znode.partitions.get(record.partition_id)
    if state is None or assigned is None:
        return False
    if entry.epochs[record.partition_id] < record.partition_epoch:
        return False
    return (
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        state.leader_recovery_state,
        assigned.replicas,
        assigned.adding,
        assigned.removing,
    ) == (
        record.leader,
        record.leader_epoch,
        tuple(record.isr),
        record.leader_recovery_state,
        tuple(record.replicas),
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
    )


def _quota_records(image: MetadataImage) -> Iterator[Message]:
    for entity, limits in image.client_quotas.items():
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, value in limits.items():
            yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)
