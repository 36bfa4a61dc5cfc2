"""Znodes by which tools and brokers ask the controller for something.

`/admin/delete_topics/T`, `/admin/reassign_partitions`, `/admin/preferred_replica_election`,
`/isr_change_notification/isr_change_N`, `/log_dir_event_notification/log_dir_event_N`. The controller
does what they ask for and deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.zookeeper.layout.json_bytes import JsonReader, to_json

DELETE_TOPICS = "/admin/delete_topics"
REASSIGN = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENTS}/log_dir_event_"
LOG_DIR_FAILURE = 1
Partition = tuple[str, int]
"""Topic and number."""


@dataclass(frozen=True, slots=True)
class DeleteTopicZnode:
    """The topic is to be deleted. It has no data."""

    topic: str

    @property
    def path(self) -> str:
        return f"{DELETE_TOPICS}/{self.topic}"

    def encode(self) -> bytes:
        return b""

    @classmethod
    def decode(cls, path: str, data: bytes) -> DeleteTopicZnode:
        return cls(path.removeprefix(f"{DELETE_TOPICS}/"))


@dataclass(frozen=True, slots=True)
class ReassignPartitionsZnode:
    """The request of the tools before KIP-455: the partitions and their replicas-to-be."""

    replicas: tuple[tuple[Partition, tuple[int, ...]], ...]
    path = REASSIGN

    def encode(self) -> bytes:
        partitions = [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in self.replicas
        ]
        return to_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, path: str, data: bytes) -> ReassignPartitionsZnode:
        """Raises `MalformedZnode`, as the others do."""
        return cls(
            tuple(
                ((one.text("topic"), one.integer("partition")), one.integers("replicas"))
                for one in JsonReader.parse(path, data).objects("partitions")
            )
        )


@dataclass(frozen=True, slots=True)
class PreferredElectionZnode:
    """The partitions whose preferred replica is to lead."""

    partitions: tuple[Partition, ...]
    path = PREFERRED_ELECTION

    def encode(self) -> bytes:
        return to_json({"version": 1, "partitions": _objects(self.partitions)})

    @classmethod
    def decode(cls, path: str, data: bytes) -> PreferredElectionZnode:
        return cls(_partitions(path, data))


@dataclass(frozen=True, slots=True)
class IsrChangeZnode:
    """A leader has written state znodes itself (before AlterPartition): the controller reads them again."""

    partitions: tuple[Partition, ...]
    name: str = ""
    """The name of the znode, once it has its number."""

    @property
    def path(self) -> str:
        return f"{ISR_CHANGES}/{self.name}" if self.name else ISR_CHANGE_PREFIX

    def encode(self) -> bytes:
        return to_json({"version": 1, "partitions": _objects(self.partitions)})

    @classmethod
    def decode(cls, path: str, data: bytes) -> IsrChangeZnode:
        return cls(_partitions(path, data), path.removeprefix(f"{ISR_CHANGES}/"))


@dataclass(frozen=True, slots=True)
class LogDirEventZnode:
    """A log directory of the broker has failed."""

    broker_id: int
    name: str = ""
    event: int = LOG_DIR_FAILURE

    @property
    def path(self) -> str:
        return f"{LOG_DIR_EVENTS}/{self.name}" if self.name else LOG_DIR_EVENT_PREFIX

    def encode(self) -> bytes:
        return to_json({"version": 1, "broker": self.broker_id, "event": self.event})

    @classmethod
    def decode(cls, path: str, data: bytes) -> LogDirEventZnode:
        fields = JsonReader.parse(path, data)
        name = path.removeprefix(f"{LOG_DIR_EVENTS}/")
        return cls(fields.integer("broker"), name, fields.integer("event"))


def _objects(partitions: Iterable[Partition]) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": number} for topic, number in partitions]


def _partitions(path: str, data: bytes) -> tuple[Partition, ...]:
    return tuple(
        (one.text("topic"), one.integer("partition"))
        for one in JsonReader.parse(path, data).objects("partitions")
    )
