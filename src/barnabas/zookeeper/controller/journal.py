"""The controller's journal where it is znodes: decided records become multi-operations, one after the
other.

`ZookeeperJournal` is the `Quorum` that the controller appends to. What was appended while a transaction
was under way goes with the next one. Every transaction is conditional on the controller epoch's
version; a lost condition is a lost leadership, and so is an answer that did not come: the office is
given up, and the next controller begins with what is written. One transaction holds at most
`OPERATIONS_MAX` operations; more are cut, parents first, and what a controller leaves between two cuts
its successor completes: a partition without a state znode.

The partition epoch of a partition's image is the version of its state znode: one write per record.

Source: Kafka's ``KafkaZkClient`` (every write of a controller carries the epoch's version), KIP-455,
KIP-516.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from barnabas.controller.configs.producer_ids import BLOCK_SIZE
from barnabas.metadata.image.codec import decode_record
from barnabas.metadata.image.image import TOPIC, MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.topic import Topic
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.ports import Ports
from barnabas.types import Buffer, Endpoint, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message
from barnabas.zookeeper.controller.election import Leadership
from barnabas.zookeeper.controller.metadata_reader import ClusterZnodes
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.operations import Create, Multi, Operation, SetData, Stat
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.topic_znodes import (
    encode_config,
    encode_producer_ids,
    encode_state,
    encode_topic,
    entity_path,
    partition_path,
    state_path,
    topic_path,
)
from barnabas.zookeeper.znodes import (
    CONFIG,
    CONFIG_CHANGE,
    DELETE_TOPICS,
    PRODUCER_IDS,
    encode_config_change,
)

OPERATIONS_MAX = 500
BYTES_MAX = 600_000
"""Of one transaction: below the ensemble's jute.maxbuffer of a megabyte."""


class JournalBatch(NamedTuple):
    """One decision's records, as the controller learns that they are written."""

    last_offset: int
    epoch: int
    append_timestamp: int
    values: Sequence[Buffer]


class _Batch(NamedTuple):
    records: list[Message]
    committed: JournalBatch
    observed: bool
    """Whether the records say what the znodes say already."""


class WrittenChanges(NamedTuple):
    """What moved by records that are written now; `deleted` are topics as they were."""

    changes: ImageChanges
    deleted: Sequence[Topic]
    removed: Sequence[tuple[int, tuple[str, int]]]
    """Brokers that have no replica of a partition any more, with its topic and index."""


class ZookeeperJournal:
    """The decisions of this broker's controller, while it is the controller."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        controller_endpoint: Callable[[], Endpoint | None],
    ) -> None:
        self._ports = ports
        self._sessions = sessions
        self._controller_endpoint = controller_endpoint
        self.written: MetadataImage
        """The controller's image: everything that was appended."""
        self.committed = MetadataImage()
        """Everything that is written, and no more: what brokers may learn."""
        self.leadership: Leadership | None = None
        self._queue: deque[_Batch] = deque()
        self._under_way = False
        self._scheduled = False
        self._observing = False
        self._topic_versions: dict[str, int] = {}
        self._configs: dict[str, None] = {}
        """Entity paths that have a znode."""
        self.folders: dict[str, None] = {}
        """Paths above state znodes that an interrupted creation has left."""
        self._deleting: dict[str, None] = {}
        self.log_end_offset = 0
        self.kraft_version = 0
        self.on_commit: Callable[[Sequence[JournalBatch]], None] = lambda batches: None
        self.on_written: Callable[[WrittenChanges], None] = lambda committed: None
        self.on_lost: Callable[[str], None] = lambda reason: None

    # -- the proposer's side (Quorum) ---------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return self.leadership is not None

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return self._controller_endpoint()

    def append(self, values: Sequence[Buffer], /) -> int:
        """Write the records, all or none where they fit one transaction; the last one's offset."""
        if self.leadership is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
        records = [decode_record(value) for value in values]
        self.log_end_offset += len(records)
        batch = JournalBatch(
            self.log_end_offset - 1,
            self.leadership.epoch,
            self._ports.clock.wall_ms(),
            values,
        )
        self._queue.append(_Batch(records, batch, self._observing))
        self._schedule()
        return batch.last_offset

    def upgrade_kraft_version(
        self, level: int, encode: Callable[[Any], Message], *, validate_only: bool = False
    ) -> Message | Parked:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "ZooKeeper coordinates this cluster: it has no quorum"
        )

    def observe(self, commit: Callable[[], object]) -> None:
        """Within `commit` the controller appends what the znodes say already."""
        self._observing = True
        try:
            commit()
        finally:
            self._observing = False

    # -- an office ---------------------------------------------------------------------------------

    def begin(self, leadership: Leadership, found: ClusterZnodes) -> MetadataImage:
        """Take up the office with what is written; the image of that for the controller."""
        self.leadership = leadership
        self._queue.clear()
        self._under_way = False
        self._topic_versions = {name: version for name, (_, version) in found.topics.items()}
        self._configs = {
            path: None
            for resource in found.configs
            for path in [entity_path(*resource)]
            if path is not None
        }
        self.folders = {}
        self._deleting = dict.fromkeys(found.deletions)
        records = found.records()
        offset = self.log_end_offset = self.log_end_offset + 1
        self.log_end_offset += 1
        wall_ms = self._ports.clock.wall_ms()
        image = MetadataImage(track_changes=False)
        for target in (image, fresh := MetadataImage(track_changes=False)):
            target.replay_batch(records, offset, leadership.epoch, wall_ms)
        self.committed.become(fresh)
        self.committed.take_changes()
        return image

    def end(self) -> None:
        """The office is over: what is not written will not be."""
        self.leadership = None
        self._queue.clear()
        self._under_way = False

    def forget_topic(self, name: str) -> None:
        """Its znodes are gone."""
        self._deleting.pop(name, None)
        self._topic_versions.pop(name, None)
        self._configs.pop(f"topics/{name}", None)

    def knows_topic(self, name: str, version: int) -> None:
        """A topic's znode that others made."""
        self._topic_versions[name] = version

    def has_topic(self, name: str) -> bool:
        """Whether the topic's znode is known."""
        return name in self._topic_versions

    def knows_config(self, path: str) -> None:
        """A configuration's znode that others made."""
        self._configs[path] = None

    def knows_deletion(self, name: str) -> None:
        """A request for a topic's deletion that others made."""
        self._deleting[name] = None

    def is_deleting(self, name: str) -> bool:
        return name in self._deleting

    @property
    def is_idle(self) -> bool:
        """Whether everything that was decided is written."""
        return not self._queue and not self._under_way

    # -- transactions ------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled and not self._under_way:
            self._scheduled = True
            self._ports.wakeups.call_soon(self._write)

    def _write(self) -> None:
        """All that waits goes together: the rows of the controller's image are those after the last of it."""
        self._scheduled = False
        if self._under_way or self.leadership is None or not self._queue:
            return
        batches = list(self._queue)
        self._queue.clear()
        operations = _Operations(self, self.leadership.epoch)
        for batch in batches:
            if not batch.observed:
                operations.add(batch.records)
        self._under_way = True
        self._submit(self.leadership, operations.finish(), batches)

    def _submit(
        self, leadership: Leadership, operations: deque[Operation], batches: list[_Batch]
    ) -> None:
        part: list[Operation] = [leadership.check]
        size = 0
        while operations and len(part) < OPERATIONS_MAX and size < BYTES_MAX:
            one = operations.popleft()
            size += len(getattr(one, "data", b""))
            part.append(one)

        def on_done(result: object) -> None:
            if self.leadership is not leadership:
                return
            if isinstance(result, ZooKeeperError):
                self._ports.log("warning", "controller.write_failed", error=result)
                self._under_way = False
                self.on_lost(f"a write to ZooKeeper failed: {result}")
                return
            assert isinstance(result, (list, tuple))
            self._note(part, result)
            if operations:
                self._submit(leadership, operations, batches)
                return
            self._under_way = False
            self._commit(batches)
            if self._queue:
                self._schedule()

        self._sessions.submit(Multi(tuple(part)), on_done)

    def _note(self, operations: Iterable[Operation], results: Sequence[object]) -> None:
        for one, result in zip(operations, results, strict=True):
            if isinstance(one, SetData) and isinstance(result, Stat):
                name = one.path.rpartition("/")[2]
                if one.path == topic_path(name):
                    self._topic_versions[name] = result.version

    def _commit(self, batches: list[_Batch]) -> None:
        deleted: list[Topic] = []
        removed: list[tuple[int, tuple[str, int]]] = []
        for batch in batches:
            for record in batch.records:
                if isinstance(record, RemoveTopicRecord):
                    topic = self.committed.topics_by_id.get(Uuid(record.topic_id))
                    if topic is not None:
                        deleted.append(topic.copy())
                elif isinstance(record, PartitionChangeRecord) and record.replicas is not None:
                    removed += self._leavers(record)
                self.committed.replay(record)
            done = batch.committed
            self.committed.moved_to(done.last_offset, done.epoch, done.append_timestamp)
        committed = WrittenChanges(self.committed.take_changes(), deleted, removed)
        self.on_commit([batch.committed for batch in batches])
        self.on_written(committed)

    def _leavers(self, record: PartitionChangeRecord) -> list[tuple[int, tuple[str, int]]]:
        """Whose replica of the partition goes by `record`."""
        before = self.committed.partition(Uuid(record.topic_id), record.partition_id)
        if before is None or record.replicas is None:
            return []
        name = (before.topic, before.partition)
        return [(broker, name) for broker in before.replicas if broker not in record.replicas]

    def describe(self) -> dict[str, object]:
        return {
            "epoch": None if self.leadership is None else self.leadership.epoch,
            "waiting": len(self._queue),
            "under_way": self._under_way,
            "end": self.log_end_offset,
        }

    def __repr__(self) -> str:
        return f"ZookeeperJournal({self.leadership}, {len(self._queue)} waiting)"


class _Operations:
    """The znode operations of some decisions, in order: parents before children, each topic written once."""

    def __init__(self, journal: ZookeeperJournal, controller_epoch: int) -> None:
        self._journal = journal
        self._image = journal.written
        self._epoch = controller_epoch
        self._topics: dict[str, Operation] = {}
        self._below: list[Operation] = []
        self._configs: dict[tuple[int, str], None] = {}
        self._writes: dict[tuple[Uuid, int], int] = {}
        self._last: list[Operation] = []

    def add(self, records: Iterable[Message]) -> None:
        for record in records:
            if isinstance(record, TopicRecord):
                self._topic(record)
            elif isinstance(record, PartitionRecord):
                self._partition(record)
            elif isinstance(record, PartitionChangeRecord):
                self._change(record)
            elif isinstance(record, RemoveTopicRecord):
                self._remove(record)
            elif isinstance(record, ConfigRecord):
                self._configs[record.resource_type, record.resource_name] = None
            elif isinstance(record, ProducerIdsRecord):
                self._producer_ids(record)
            # Others are of this office alone: who is alive is in the ephemeral znodes.

    def finish(self) -> deque[Operation]:
        return deque([*self._config_writes(), *self._topics.values(), *self._below, *self._last])

    def _assignment(self, topic: Topic) -> None:
        path = topic_path(topic.name)
        version = self._journal._topic_versions.get(topic.name)
        data = encode_topic(topic)
        if version is None:
            self._topics[topic.name] = Create(path, data)
        elif not isinstance(self._topics.get(topic.name), Create):
            self._topics[topic.name] = SetData(path, data, version)

    def _topic(self, record: TopicRecord) -> None:
        topic = self._image.topics_by_id.get(Uuid(record.topic_id))
        if topic is None:
            return  # deleted by a later decision: neither is written
        known = record.name in self._journal._topic_versions
        self._assignment(topic)
        folder = f"{topic_path(record.name)}/partitions"
        if not known:
            self._journal._topic_versions[record.name] = 0
        if folder not in self._journal.folders:
            self._below.append(Create(folder))

    def _partition(self, record: PartitionRecord) -> None:
        topic = self._image.topics_by_id.get(Uuid(record.topic_id))
        if topic is None:
            return
        index = record.partition_id
        if topic.name not in self._topics:
            self._assignment(topic)
        state = topic.partition(index)
        path = partition_path(topic.name, index)
        if path not in self._journal.folders:
            self._below.append(Create(path))
        data = encode_state(state, self._epoch)
        self._below.append(Create(state_path(topic.name, index), data))

    def _change(self, record: PartitionChangeRecord) -> None:
        key = (Uuid(record.topic_id), record.partition_id)
        topic = self._image.topics_by_id.get(key[0])
        if topic is None:
            return
        state = topic.partition(record.partition_id)
        before = self._journal.committed.partition(*key)
        moves = (record.replicas, record.adding_replicas, record.removing_replicas)
        if any(ids is not None for ids in moves):
            self._assignment(topic)
        written = self._writes.get(key, 0)
        self._writes[key] = written + 1
        version = written if before is None else before.partition_epoch + written
        path = state_path(topic.name, record.partition_id)
        self._below.append(SetData(path, encode_state(state, self._epoch), version))

    def _remove(self, record: RemoveTopicRecord) -> None:
        topic = self._journal.committed.topics_by_id.get(Uuid(record.topic_id))
        if topic is not None and topic.name not in self._journal._deleting:
            self._journal._deleting[topic.name] = None
            self._last.append(Create(f"{DELETE_TOPICS}/{topic.name}"))

    def _config_writes(self) -> list[Operation]:
        found: list[Operation] = []
        for kind, name in self._configs:
            path = entity_path(kind, name)
            if path is None or (kind == TOPIC and name not in self._image.topics_by_name):
                continue
            data = encode_config(self._image.config(kind, name))
            known = path in self._journal._configs
            self._journal._configs[path] = None
            at = f"{CONFIG}/{path}"
            found.append(SetData(at, data) if known else Create(at, data))
            change = encode_config_change(path)
            self._last.append(Create(CONFIG_CHANGE, change, sequential=True))
        return found

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        start = record.next_producer_id - BLOCK_SIZE
        data = encode_producer_ids(record.broker_id, start, record.next_producer_id - 1)
        self._last.append(SetData(PRODUCER_IDS, data))
