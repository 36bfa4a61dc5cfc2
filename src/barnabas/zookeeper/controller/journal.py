"""The controller's journal where it is znodes: decided records become multi-operations, one after the
other.

`ZookeeperJournal` is the `Quorum` that the controller appends to. What was appended while a transaction
was under way goes with the next one. Every transaction is conditional on the controller epoch's
version; a lost condition, or an answer that does not come, ends the leadership, and the next controller
begins with what is written. One transaction holds at most
`operations_max` operations (`limits.ZookeeperBounds`); more are cut, parents first, and what a controller
leaves between two cuts its successor completes: a partition without a state znode.

The partition epoch of a partition's image is the version of its state znode: one write per record.

Source: Kafka's ``KafkaZkClient`` (every write of a controller carries the epoch's version), KIP-455,
KIP-516.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.metadata.image.codec import decode_record
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.topic import Topic
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.ports import Ports
from barnabas.types import Buffer, Endpoint, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message
from barnabas.zookeeper.controller.metadata_reader import FoundCluster
from barnabas.zookeeper.controller.record_writes import RecordWrites
from barnabas.zookeeper.controller.unreadable_topics import topic_of
from barnabas.zookeeper.cut_operations import take_operations
from barnabas.zookeeper.election.states import Leadership
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.topic_znodes import topic_path
from barnabas.zookeeper.operations import Multi, Operation, SetData, Stat
from barnabas.zookeeper.session_keeper import SessionKeeper


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
    """The changes by records that are written now; `deleted` are topics as they were."""

    changes: ImageChanges
    deleted: Sequence[Topic]
    removed: Sequence[tuple[int, tuple[str, int]]]
    """Brokers that have no replica of a partition any more, with its topic and index."""
    assigned: Mapping[tuple[Uuid, int], Sequence[int]] = {}
    """The brokers that have a replica of the partition for the first time, by topic id and index."""


class JournalListener:
    """A listener of the journal. These methods do nothing; a subclass has those that it needs."""

    def on_decided(self, records: Sequence[Message]) -> None:
        """Records were appended that the znodes do not say yet."""

    def on_record(self, record: Message) -> None:
        """A record is written; `committed_image` has not replayed it yet."""

    def on_commit(self, batches: Sequence[JournalBatch]) -> None:
        """Batches are written."""

    def on_written(self, committed: WrittenChanges) -> None:
        """The committed image has replayed what is written."""

    def on_lost(self, reason: str) -> None:
        """A write failed: this broker cannot be the controller any longer."""


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
        self.written_image: MetadataImage
        """The controller's image: everything that was appended."""
        self.committed_image = MetadataImage()
        """Everything that is written, and no more: what brokers may learn."""
        self.leadership: Leadership | None = None
        self._queue: deque[_Batch] = deque()
        self._under_way = False
        self._scheduled = False
        self._observing = False
        self.layout = ClusterLayout()
        """The layout of the znodes that are no topic's."""
        self.topic_versions: dict[str, int] = {}
        self.folders: dict[str, None] = {}
        """Paths above state znodes that an interrupted creation has left."""
        self.lacking: dict[str, None] = {}
        """Such paths that it has not come to, of topics that are there."""
        self.deleting: dict[str, None] = {}
        self.log_end_offset = 0
        self.kraft_version = 0
        self._listener: JournalListener = JournalListener()

    def listen(self, listener: JournalListener, written: MetadataImage) -> None:
        """Tell `listener` of what is written. `written` is the image of the controller. Call this before the
        first term."""
        self._listener, self.written_image = listener, written

    def give_up(self, reason: str) -> None:
        """A write failed: this broker cannot be the controller any longer."""
        self._listener.on_lost(reason)

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
        if not self._observing:
            self._listener.on_decided(records)
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

    # -- begin and end of a controller epoch -------------------------------------------------------

    def begin(self, leadership: Leadership, found: FoundCluster) -> MetadataImage:
        """Begin with what the znodes have. Returns the image of that for the controller."""
        self.leadership = leadership
        self._queue.clear()
        self._under_way = False
        self.layout = found.layout
        topics = {**found.layout.topics, **found.going}
        self.topic_versions = {name: topic.version for name, topic in topics.items()}
        left_out = (topic_of(error.path) for error in found.malformed_topics)
        self.topic_versions.update((name, 0) for name in left_out)  # their names are taken
        self.folders, self.lacking = {}, {}
        self.deleting = dict.fromkeys(found.deletions)
        records = found.records
        offset = self.log_end_offset = self.log_end_offset + 1
        self.log_end_offset += 1
        wall_ms = self._ports.clock.wall_ms()
        image = MetadataImage(track_changes=False)
        for target in (image, fresh := MetadataImage(track_changes=False)):
            target.replay_batch(records, offset, leadership.epoch, wall_ms)
        self.committed_image.become(fresh)
        self.committed_image.take_changes()
        return image

    def end(self) -> None:
        """This broker is no longer the controller: what is not written is dropped."""
        self.leadership = None
        self._queue.clear()
        self._under_way = False

    def forget_topic(self, name: str) -> None:
        """Its znodes are gone."""
        self.deleting.pop(name, None)
        self.topic_versions.pop(name, None)
        self.layout.forget_config(f"topics/{name}")

    def knows_topic(self, name: str, version: int) -> None:
        """A topic's znode that others made."""
        self.topic_versions[name] = version

    def has_topic(self, name: str) -> bool:
        """Whether the topic's znode is known."""
        return name in self.topic_versions

    def knows_deletion(self, name: str) -> None:
        """A request for a topic's deletion that others made."""
        self.deleting[name] = None

    def is_deleting(self, name: str) -> bool:
        return name in self.deleting

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
        writes = RecordWrites(self, self.leadership.epoch)
        for batch in batches:
            writes.add(batch.records, observed=batch.observed)
        self._under_way = True
        self._submit(self.leadership, writes.finish(), batches)

    def _submit(
        self, leadership: Leadership, operations: deque[Operation], batches: list[_Batch]
    ) -> None:
        bounds = self._ports.bounds.zookeeper
        part = [leadership.check, *take_operations(operations, bounds, besides=1)]

        def on_done(result: object) -> None:
            if self.leadership is not leadership:
                return
            if isinstance(result, ZooKeeperError):
                self._ports.log("warning", "controller.write_failed", error=result)
                self._under_way = False
                self.give_up(f"a write to ZooKeeper failed: {result}")
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
                    self.topic_versions[name] = result.version

    def _commit(self, batches: list[_Batch]) -> None:
        deleted: list[Topic] = []
        removed: list[tuple[int, tuple[str, int]]] = []
        assigned: dict[tuple[Uuid, int], list[int]] = {}
        for batch in batches:
            for record in batch.records:
                if isinstance(record, PartitionRecord) and not batch.observed:
                    key = Uuid(record.topic_id), record.partition_id
                    assigned[key] = list(record.replicas)
                if isinstance(record, RemoveTopicRecord):
                    topic = self.committed_image.topics_by_id.get(Uuid(record.topic_id))
                    if topic is not None:
                        deleted.append(topic.copy())
                elif isinstance(record, PartitionChangeRecord) and record.replicas is not None:
                    removed += self._leavers(record)
                    key = Uuid(record.topic_id), record.partition_id
                    assigned.setdefault(key, []).extend(self._joiners(record))
                self._listener.on_record(record)
                self.committed_image.replay(record)
            done = batch.committed
            self.committed_image.moved_to(done.last_offset, done.epoch, done.append_timestamp)
        committed = WrittenChanges(self.committed_image.take_changes(), deleted, removed, assigned)
        self._listener.on_commit([batch.committed for batch in batches])
        self._listener.on_written(committed)

    def _joiners(self, record: PartitionChangeRecord) -> list[int]:
        """Who had no replica of the partition before `record`."""
        before = self.committed_image.partition(Uuid(record.topic_id), record.partition_id)
        known = () if before is None else before.replicas
        return [broker for broker in record.replicas or () if broker not in known]

    def _leavers(self, record: PartitionChangeRecord) -> list[tuple[int, tuple[str, int]]]:
        """Whose replica of the partition goes by `record`."""
        before = self.committed_image.partition(Uuid(record.topic_id), record.partition_id)
        if before is None or record.replicas is None:
            return []
        name = (before.topic, before.partition)
        return [(broker, name) for broker in before.replicas if broker not in record.replicas]

    def validate(self) -> None:
        """Batches wait in order behind what is written, and only in the controller. Raises AssertionError."""
        if self.leadership is None:
            assert self.is_idle, f"{self!r} writes and is not the controller"
            return
        offsets = [batch.committed.last_offset for batch in self._queue]
        assert offsets == sorted(offsets), f"batches are out of order: {offsets}"
        assert not offsets or offsets[0] > self.committed_image.offset, f"{offsets[0]} is written"
        assert self.committed_image.offset < self.log_end_offset, (
            f"{self!r} wrote {self.committed_image.offset}"
        )

    def describe(self) -> dict[str, object]:
        return {
            "epoch": None if self.leadership is None else self.leadership.epoch,
            "waiting": len(self._queue),
            "under_way": self._under_way,
            "end": self.log_end_offset,
        }

    def __repr__(self) -> str:
        return f"ZookeeperJournal({self.leadership}, {len(self._queue)} waiting)"
