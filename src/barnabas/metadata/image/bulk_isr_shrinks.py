"""Members that leave ISRs by the hundred thousand: decided, written and replayed row by row.

When a third of a cluster dies, seven hundred thousand partitions change in the same few ways, and an
object per record is what costs most. `Shrinks` stand where PartitionChangeRecords stand, hold the bytes
these are written as, and replaying them is replaying those records; a property test holds both equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.metadata.image.fast_encode import encode_shrink
from barnabas.metadata.image.topic import LEADER_UNCHANGED, RECOVERED, Rare, Replicas, Topic
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.metadata.image.image import MetadataImage


class Shrink(NamedTuple):
    """One partition. None: stays as it is."""

    topic_id: Uuid
    partition: int
    leader: int
    isr: Replicas
    elr: Replicas | None
    last_known: Replicas | None

    def record(self) -> PartitionChangeRecord:
        """The record that this represents, without its reason."""
        return PartitionChangeRecord(
            partition_id=self.partition,
            topic_id=self.topic_id,
            isr=self.isr,
            leader=self.leader,
            eligible_leader_replicas=self.elr,
            last_known_elr=self.last_known,
        )


class Shrinks:
    """Some partitions, and the values of their records, in their order."""

    __slots__ = ("rows", "values")

    def __init__(self) -> None:
        self.rows: list[tuple[Uuid, int, int, Replicas, Replicas | None, Replicas | None]] = []
        """The fields of :class:`Shrink`, a tuple for each."""
        self.values: list[bytes] = []

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        topic_id: Uuid,
        index: int,
        leader: int,
        isr: Replicas,
        elr: Replicas | None,
        last_known: Replicas | None,
        tag: bytes,
    ) -> None:
        """No list may be longer than `fast_encode.LIST_MAX`; `tag` is of `fast_encode.reason_tag`."""
        self.rows.append((topic_id, index, leader, isr, elr, last_known))
        self.values.append(encode_shrink(topic_id, index, leader, isr, elr, last_known, tag))

    def __repr__(self) -> str:
        return f"Shrinks({len(self)} partitions)"


def replay_shrinks(image: MetadataImage, shrinks: Shrinks) -> None:
    """A partition that is unknown, or has something rare, goes the way of its record."""
    topics, captures, intern = image.topics_by_id, image.captures, image.intern
    changes = image.changes
    undo: list[tuple[Topic, int, int, bool, Replicas]] | None = None
    if image.undo is not None:
        undo = []
        image.undo.append((_take_back, image, undo))
    for row in shrinks.rows:
        topic_id, index, leader, isr, elr, last_known = row
        topic = topics.get(topic_id)
        if topic is None or not 0 <= index < len(topic.isr) or index in topic.rare:
            image.replay(Shrink(*row).record())
            if image.undo is not None:
                # What follows is taken back before this record is.
                undo = []
                image.undo.append((_take_back, image, undo))
            continue
        for capture in captures:
            capture.before_change(topic)
        moved = leader != LEADER_UNCHANGED
        if undo is not None:
            undo.append((topic, index, topic.leader[index], moved, topic.isr[index]))
        if moved:
            topic.leader[index] = leader
            topic.leader_epoch[index] += 1
        topic.partition_epoch[index] += 1
        topic.isr[index] = intern(isr)
        if elr or last_known:
            topic.rare[index] = _rare(image, elr or (), last_known or ())
        if changes is not None and topic_id not in changes.topics_created:
            changes.partitions[topic_id, index] = None


def _rare(image: MetadataImage, elr: Replicas, last_known: Replicas) -> Rare:
    """After a mass failure a hundred thousand partitions have the same few ELRs."""
    intern = image.intern
    return image.intern_rare(Rare(intern(elr), intern(last_known), (), (), RECOVERED))


def _take_back(image: MetadataImage, rows: list[tuple[Topic, int, int, bool, Replicas]]) -> None:
    for topic, index, leader, moved, isr in reversed(rows):
        for capture in image.captures:
            capture.before_change(topic)
        topic.leader[index] = leader
        topic.leader_epoch[index] -= moved
        topic.partition_epoch[index] -= 1
        topic.isr[index] = isr
        topic.rare.pop(index, None)
        if image.changes is not None:
            image.changes.partitions[topic.id, index] = None
