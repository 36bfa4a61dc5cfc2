"""Records of the metadata log as events that people can read.

An event has a kind of decision, its subject, what changed, and the reason. The reason is a tagged field of
Barnabas on Kafka's record; a record that Kafka wrote has none. `EventReader` also replays the records into
an image, because a change record names its topic by id and has only the new values.

Source: DESIGN (reasons are tagged fields); KIP-631 for the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from barnabas.metadata.image.codec import decode_record
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import LEADER_UNCHANGED, NO_LEADER, PartitionState
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.register_controller_record import RegisterControllerRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.metadata.records.unregister_controller_record import UnregisterControllerRecord
from barnabas.metadata.views.metadata_tree import shown_value
from barnabas.types import Buffer, Uuid
from barnabas.wire.schema import Message

KINDS = ("election", "isr", "reassignment", "partition", "broker", "controller", "topic", "config",
         "feature", "quorum", "refusal", "state", "step")  # fmt: skip
"""The last four come from control records and from the controllers' lists: see the command line. States and
steps are those of a controller of ZooKeeper mode (`barnabas.zookeeper.states`)."""


class ClusterEvent(NamedTuple):
    """`offset` of the record (-1 without one), `at_ms` the leader's time (milliseconds since 1970)."""

    offset: int
    at_ms: int
    kind: str
    subject: str
    change: str
    reason: str

    def as_dict(self) -> dict[str, object]:
        return self._asdict()

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.kind} {self.subject}: {self.change}{why}"


class EventReader:
    """Turns record values into events, in order of the log."""

    def __init__(self, image: MetadataImage | None = None) -> None:
        """`image` is the state before the first value; None: the log begins here."""
        self.image = image or MetadataImage(track_changes=False)

    def load(self, values: Iterable[Buffer], last_offset: int, epoch: int) -> None:
        """Replace the image by a snapshot's values; they give no events."""
        self.image.reset()
        self.image.replay_values(values, last_offset, epoch)

    def feed(
        self, values: Sequence[Buffer], base_offset: int, at_ms: int
    ) -> Iterator[ClusterEvent]:
        """Events of one batch's values. Raises MalformedError."""
        for i, value in enumerate(values):
            record = decode_record(value)
            reported = described_record(self.image, record)
            self.image.replay(record)
            if reported is not None:
                kind, subject, change = reported
                reason = getattr(record, "reason", None) or ""
                yield ClusterEvent(base_offset + i, at_ms, kind, subject, change, reason)


Described = tuple[str, str, str] | None
"""Kind, subject and change."""


def described_record(image: MetadataImage, record: Message) -> Described:
    """The event that `record` is; `image` has not replayed it yet. None where it is no event."""
    describe = _DESCRIBERS.get(type(record))
    reported: Described = None if describe is None else describe(image, record)
    return reported


def _partition_change(image: MetadataImage, record: PartitionChangeRecord) -> Described:
    before = image.partition(Uuid(record.topic_id), record.partition_id)
    if before is None:
        return None
    parts = changed_parts(record, before)
    if (record.replicas, record.adding_replicas, record.removing_replicas) != (None, None, None):
        kind = "reassignment"
    elif record.leader not in (LEADER_UNCHANGED, before.leader):
        kind = "election"
    elif record.isr is not None or record.eligible_leader_replicas is not None:
        kind = "isr"
    else:
        kind = "partition"
    return kind, str(before), ", ".join(parts)


def changed_parts(record: PartitionChangeRecord, before: PartitionState) -> list[str]:
    """The changes of a change record, each as ``name old → new``."""
    parts = []
    if record.leader != LEADER_UNCHANGED:
        parts.append(f"leader {_node(before.leader)} → {_node(record.leader)}")
    for name, new, old in (
        ("isr", record.isr, before.isr),
        ("elr", record.eligible_leader_replicas, before.elr),
        ("last known elr", record.last_known_elr, before.last_known_elr),
        ("replicas", record.replicas, before.replicas),
        ("adding", record.adding_replicas, before.adding),
        ("removing", record.removing_replicas, before.removing),
    ):
        if new is not None:
            parts.append(f"{name} {_list(old)} → {_list(new)}")
    if record.leader_recovery_state >= 0:
        parts.append("leader is recovering" if record.leader_recovery_state else "leader recovered")
    if record.directories is not None:
        parts.append("directories assigned")
    return parts


def _node(node: int) -> str:
    return "none" if node == NO_LEADER else str(node)


def _list(values: Iterable[int]) -> str:
    return ",".join(map(str, values)) or "none"


def _partition(image: MetadataImage, record: PartitionRecord) -> Described:
    topic = image.topics_by_id.get(Uuid(record.topic_id))
    name = topic.name if topic is not None else "?"
    if topic is not None and topic.has(record.partition_id):  # of a quorum that was recovered
        return (
            "partition",
            f"{name}-{record.partition_id}",
            f"continues in leader epoch {record.leader_epoch}",
        )
    return (
        "partition",
        f"{name}-{record.partition_id}",
        f"created with replicas {_list(record.replicas)}, leader {_node(record.leader)}",
    )


def _topic(image: MetadataImage, record: TopicRecord) -> Described:
    return "topic", record.name, "created"


def _remove_topic(image: MetadataImage, record: RemoveTopicRecord) -> Described:
    topic = image.topics_by_id.get(Uuid(record.topic_id))
    return ("topic", topic.name, "deleted") if topic is not None else None


def _register(image: MetadataImage, record: RegisterBrokerRecord) -> Described:
    return "broker", str(record.broker_id), f"registered with epoch {record.broker_epoch}"


def _unregister(image: MetadataImage, record: UnregisterBrokerRecord) -> Described:
    return "broker", str(record.broker_id), "unregistered"


def _broker_change(image: MetadataImage, record: BrokerRegistrationChangeRecord) -> Described:
    parts = []
    if record.fenced:
        parts.append("fenced" if record.fenced > 0 else "unfenced")
    if record.in_controlled_shutdown:
        parts.append("shutting down")
    if record.log_dirs:
        parts.append(f"{len(record.log_dirs)} log directories online")
    if record.cordoned_log_dirs is not None:
        parts.append(f"{len(record.cordoned_log_dirs)} log directories cordoned")
    return "broker", str(record.broker_id), ", ".join(parts)


def _register_controller(image: MetadataImage, record: RegisterControllerRecord) -> Described:
    return "controller", str(record.controller_id), "registered"


def _unregister_controller(image: MetadataImage, record: UnregisterControllerRecord) -> Described:
    return "controller", str(record.controller_id), "unregistered"


def _config(image: MetadataImage, record: ConfigRecord) -> Described:
    kind = {2: "topic", 4: "broker", 16: "client metrics", 32: "group"}.get(
        record.resource_type, str(record.resource_type)
    )
    value = record.value
    if value is not None:
        value = shown_value(record.resource_type, record.name, value)
    change = "removed" if record.value is None else f"= {value}"
    return "config", f"{kind} {record.resource_name or '(all)'}", f"{record.name} {change}"


def _feature(image: MetadataImage, record: FeatureLevelRecord) -> Described:
    before = image.features.get(record.name, 0)
    return "feature", record.name, f"{before} → {record.feature_level}"


_DESCRIBERS: dict[type[Message], Any] = {
    PartitionChangeRecord: _partition_change,
    PartitionRecord: _partition,
    TopicRecord: _topic,
    RemoveTopicRecord: _remove_topic,
    RegisterBrokerRecord: _register,
    UnregisterBrokerRecord: _unregister,
    BrokerRegistrationChangeRecord: _broker_change,
    RegisterControllerRecord: _register_controller,
    UnregisterControllerRecord: _unregister_controller,
    ConfigRecord: _config,
    FeatureLevelRecord: _feature,
}
