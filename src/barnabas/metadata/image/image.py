"""The cluster's metadata as one columnar image, built by replaying records and by nothing else.

`replay` never decides and never refuses: the committed log is the truth, and a record
that names something unknown (which only a bug or a foreign writer leaves) changes nothing and is
counted in `ignored`. Controllers, brokers, snapshots and tools use the same replay.

A metadata transaction (KIP-868) shows nothing until it ends: its records wait and are replayed at
its end, or dropped when it is aborted.

The active controller applies its own records before they are committed: `apply_uncommitted` keeps
an undo log per append, `commit_to` forgets it as the high watermark passes, `undo_uncommitted`
takes everything back when leadership is lost.

A reader that follows the image asks `take_changes()` after each committed batch.

Invariants: equal offset ⇒ equal image, whatever mixture of snapshot, tail and undoing led there;
`partition_keys_of` names exactly the partitions whose replicas contain the broker.

Source: Kafka's ``MetadataImage``.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from barnabas.metadata import features as levels
from barnabas.metadata.image import replay
from barnabas.metadata.image.broker_partitions import INDEX_BITS, INDEX_MASK, BrokerPartitions
from barnabas.metadata.image.bulk_partition_records import Replayable, RowReader
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.registrations import BrokerRegistration, ControllerRegistration
from barnabas.metadata.image.topic import PartitionState, Rare, Topic
from barnabas.types import Uuid
from barnabas.wire.schema import Message

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
"""Types of configuration resources (ConfigRecord.resource_type)."""
CLUSTER_DEFAULT: Final = ""
"""The name of the broker resource that holds the cluster-wide dynamic defaults."""

Undo = tuple[Any, ...]
"""A function and its arguments: what takes one replayed record back."""
EntityKey = tuple[tuple[str, str | None], ...]


class Capture(Protocol):
    """A reader that keeps the image's state of one moment while the image changes."""

    def before_change(self, topic: Topic, /) -> None: ...


class _Frame:
    """One uncommitted append: its records, what takes them back, and where the image stood."""

    __slots__ = ("before", "last_offset", "records", "undo")

    def __init__(self, before: tuple[int, int, int], records: Sequence[Replayable]) -> None:
        self.before = before
        """Offset, epoch and append date of the image before it."""
        self.records = records
        self.last_offset = -1
        self.undo: list[Undo] = []


class MetadataImage:
    """All of the cluster's metadata at one offset of its log. Only replay writes here; everybody
    else reads the attributes."""

    def __init__(self, *, track_changes: bool = True) -> None:
        self.changes: ImageChanges | None = ImageChanges() if track_changes else None
        self._empty()

    def _empty(self) -> None:
        self.offset = -1
        """The offset of the last replayed record; -1 before any."""
        self.epoch = -1
        """Quorum epoch of the last replayed record."""
        self.append_ms = -1
        """The leader's date on the last replayed batch (milliseconds since 1970)."""
        self.ignored = 0
        """Records that named something unknown."""
        self.topics_by_name: dict[str, Topic] = {}
        self.topics_by_id: dict[Uuid, Topic] = {}
        self.collisions: dict[str, dict[str, None]] = {}
        """Names with '.' or '_' by what metrics make of them: '.' becomes '_'."""
        self.slots: list[Topic | None] = []
        """Topics by `Topic.slot`; None where deleted. Slots are not used again."""
        self.brokers: dict[int, BrokerRegistration] = {}
        self.broker_version = getattr(self, "broker_version", -1) + 1
        """Grows whenever a broker's registration changes, so that what was derived can be dropped."""
        self.controllers: dict[int, ControllerRegistration] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """(resource type, resource name) → what is set there dynamically."""
        self.config_version = getattr(self, "config_version", -1) + 1
        """Grows whenever a configuration changes, so that what was derived can be dropped."""
        self.features: dict[str, int] = {}
        """Finalized levels by feature name; a feature at level 0 does not stand here."""
        self.next_producer_id = 0
        self.client_quotas: dict[EntityKey, dict[str, float]] = {}
        self.quota_version = getattr(self, "quota_version", -1) + 1
        """Grows whenever a client quota changes, so that what was derived can be dropped."""
        self.acls: dict[Uuid, Message] = {}
        self.acl_version = getattr(self, "acl_version", -1) + 1
        """Grows whenever an access control entry changes, so that what was derived can be dropped."""
        self.scram_credentials: dict[tuple[int, str], Message] = {}
        self.delegation_tokens: dict[str, Message] = {}
        self.zk_migration_state = 0
        self.incomplete_topics: dict[str, None] = {}
        """Names of topics of which not all partitions may be here. In ZooKeeper mode a broker learns of a new
        topic by LeaderAndIsr, which has its own partitions, and then by UpdateMetadata, which has all."""
        self.broker_partitions = BrokerPartitions(self.slots)
        self.undo: list[Undo] | None = None
        """Undo log of the uncommitted records; None when undo is not needed."""
        self._frames: deque[_Frame] = deque()
        self.captures: list[Capture] = []
        """Snapshots being written: told of a topic before it changes."""
        self.transaction: list[Replayable] | None = None
        """Records of the open metadata transaction."""
        self.transaction_start = -1
        """Offset of the record that opened it."""
        self._interned: dict[Any, Any] = {}
        self._reader = RowReader()
        self._rares: dict[Rare, Rare] = {}

    # -- replay ----------------------------------------------------------------------------------

    def replay(self, record: Replayable) -> None:
        """Apply one record. Positions are the batch's: see `replay_batch`."""
        if self.transaction is not None and type(record) not in replay.TRANSACTION_RECORDS:
            self.transaction.append(record)
            return
        replay.REPLAY[type(record)](self, record)

    def replay_batch(
        self, records: Iterable[Replayable], last_offset: int, epoch: int, append_ms: int = -1
    ) -> None:
        """Apply the records of one committed batch that ends at `last_offset`."""
        table = replay.REPLAY
        for record in records:
            if self.transaction is None:
                table[type(record)](self, record)
            else:
                self.replay(record)
        self.moved_to(last_offset, epoch, append_ms)

    def replay_values(
        self, values: Iterable[Any], last_offset: int, epoch: int, append_ms: int = -1
    ) -> None:
        """Replay a batch as `replay_batch` does, from the records' values. Raises MalformedError where a
        value is no metadata record that this version knows: the node must not continue."""
        staged: list[Replayable] = []
        self.stage(values, staged)
        self.replay_batch(staged, last_offset, epoch, append_ms)

    def stage(self, values: Iterable[Any], into: list[Replayable]) -> None:
        """Read a slice of a large batch; the image does not move before all of it is replayed. Raises
        as `replay_values`."""
        self._reader.stage(values, into)

    def moved_to(self, offset: int, epoch: int, append_ms: int = -1) -> None:
        """A batch (also one without metadata records, as a leader change) ends at `offset`."""
        if self.transaction is not None and self.transaction_start < 0:
            self.transaction_start = offset
        self.offset = offset
        self.epoch = epoch
        if append_ms >= 0:
            self.append_ms = append_ms

    def reset(self) -> None:
        """Empty the image, to be filled from a snapshot. What it held is gone for undo, too."""
        tracked = self.changes is not None
        self._empty()
        self.changes = ImageChanges(everything=True) if tracked else None

    def become(self, other: MetadataImage) -> None:
        """Take over the contents of `other`, which the caller must not use any more: it was filled from a
        snapshot while this image stayed unchanged. As with `reset`, there is nothing to undo."""
        tracked, configs, brokers, acls, quotas = (
            self.changes is not None,
            self.config_version,
            self.broker_version,
            self.acl_version,
            self.quota_version,
        )
        self.__dict__.update(other.__dict__)
        self.config_version += configs + 1
        self.broker_version += brokers + 1
        self.acl_version += acls + 1
        self.quota_version += quotas + 1
        self.changes = ImageChanges(everything=True) if tracked else None

    def take_changes(self) -> ImageChanges:
        """The changes since the last call. An image made with `track_changes=False` knows none."""
        changes = self.changes
        if changes is None:
            return ImageChanges()
        self.changes = ImageChanges()
        return changes

    # -- the active controller's own records -----------------------------------------------------

    def apply_uncommitted(
        self, records: Sequence[Replayable], last_offset: int, epoch: int, append_ms: int = -1
    ) -> None:
        """Apply own records that were appended to the log and end at `last_offset`."""
        frame = _Frame((self.offset, self.epoch, self.append_ms), records)
        self.undo = frame.undo
        try:
            self.replay_batch(records, last_offset, epoch, append_ms)
        finally:
            self.undo = None
            frame.last_offset = last_offset
            self._frames.append(frame)

    def commit_to(self, offset: int) -> None:
        """Everything up to `offset` is committed: it will not be undone any more."""
        frames = self._frames
        while frames and frames[0].last_offset <= offset:
            frames.popleft()

    def undo_uncommitted(self) -> list[tuple[Sequence[Replayable], int, int, int]]:
        """Take back, newest first, all that was applied and not committed. Returns it, oldest
        first, as arguments of `apply_uncommitted`."""
        undone = []
        while self._frames:
            frame = self._frames.pop()
            undone.append((frame.records, frame.last_offset, self.epoch, self.append_ms))
            for undo in reversed(frame.undo):
                undo[0](*undo[1:])
            self.offset, self.epoch, self.append_ms = frame.before
        self.config_version += 1
        self.acl_version += 1
        self.quota_version += 1
        undone.reverse()
        return undone

    @property
    def uncommitted(self) -> int:
        """Appends applied and not yet committed."""
        return len(self._frames)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version; the lowest there is before any is known."""
        return self.features.get(levels.METADATA_VERSION, levels.MINIMUM_METADATA_VERSION)

    @property
    def elr_enabled(self) -> bool:
        """Eligible leader replicas are kept (KIP-966)."""
        return self.features.get(levels.ELR_VERSION, 0) >= 1

    @property
    def consistent_offset(self) -> int:
        """The offset at which a snapshot may end: the last one outside an open transaction."""
        return self.offset if self.transaction is None else self.transaction_start - 1

    def partition(self, topic_id: Uuid, index: int) -> PartitionState | None:
        """One partition's state, or None where it does not exist."""
        topic = self.topics_by_id.get(topic_id)
        return topic.partition(index) if topic is not None and topic.has(index) else None

    def partition_keys_of(self, broker: int) -> array[int]:
        """Keys (for `at`) of the partitions that `broker` has a replica of; a copy that stays as
        it is while the image moves on."""
        return self.broker_partitions.keys(broker)

    def replicas_on(self, broker: int) -> int:
        """How many partitions have a replica on `broker`, or somewhat more."""
        return self.broker_partitions.count(broker)

    def at(self, key: int) -> tuple[Topic, int] | None:
        """The topic and index a key names, or None where it is gone."""
        slot = key >> INDEX_BITS
        topic = self.slots[slot] if slot < len(self.slots) else None
        return None if topic is None else (topic, key & INDEX_MASK)

    def partitions_of(self, broker: int) -> Iterator[tuple[Topic, int]]:
        """(topic, index) of every partition that `broker` has a replica of."""
        slots = self.slots
        for key in self.broker_partitions.keys(broker):
            topic = slots[key >> INDEX_BITS]
            if topic is not None:
                yield topic, key & INDEX_MASK

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """The dynamic configuration of one resource; empty where nothing is set."""
        return self.configs.get((resource_type, name), {})

    def intern(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """The one copy of an equal tuple that the image keeps."""
        found: tuple[Any, ...] = self._interned.setdefault(value, value)
        return found

    def intern_rare(self, value: Rare) -> Rare:
        """The one copy of equal rare columns."""
        return self._rares.setdefault(value, value)

    def intern_uuids(self, values: Iterable[bytes]) -> tuple[Uuid, ...]:
        """An interned tuple of interned UUIDs."""
        one = self._interned
        given = tuple(values)
        found: tuple[Uuid, ...] | None = one.get(given)
        if found is None:
            found = self.intern(tuple([one.setdefault(value, value) for value in given]))
        return found

    def validate(self) -> None:
        """Invariants 8 and 12 of every partition. Raises AssertionError."""
        assert len(self.topics_by_id) == len(self.topics_by_name), repr(self)
        for topic_id, topic in self.topics_by_id.items():
            assert topic.id == topic_id and self.topics_by_name[topic.name] is topic, topic.name
            assert self.slots[topic.slot] is topic, topic.name
            topic.validate()

    def describe(self) -> dict[str, object]:
        """A summary for people and logs."""
        return {
            "offset": self.offset,
            "epoch": self.epoch,
            "topics": len(self.topics_by_id),
            "partitions": sum(len(topic) for topic in self.topics_by_id.values()),
            "brokers": {b.id: "fenced" if b.fenced else "active" for b in self.brokers.values()},
            "features": dict(self.features),
            "uncommitted": self.uncommitted,
            "in_transaction": self.transaction is not None,
            "ignored": self.ignored,
        }

    def __repr__(self) -> str:
        return (
            f"MetadataImage(offset={self.offset}, epoch={self.epoch},"
            f" topics={len(self.topics_by_id)}, brokers={sorted(self.brokers)})"
        )
