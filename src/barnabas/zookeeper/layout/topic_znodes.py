"""`/brokers/topics/T`: a topic's id and assignment; `.../partitions/P/state`: leader, ISR and epochs.

A state znode's version is the partition epoch. `leader_recovery_state` is written only while the leader
recovers (KIP-704).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from barnabas.types import Uuid
from barnabas.zookeeper.layout.java_order import scala_immutable, scala_mutable
from barnabas.zookeeper.layout.json_bytes import JsonReader, MalformedZnode, to_json
from barnabas.zookeeper.layout.uuid_text import uuid_from_text, uuid_to_text

TOPICS = "/brokers/topics"
VERSION = 3
RECOVERED, RECOVERING = 0, 1
NUMBER_MAX = 1 << 20
"""The highest number of a partition: an assignment with as many has no place in a znode, which holds 1
MiB."""
STATE_PATH = re.compile(r"/brokers/topics/([^/]+)/partitions/([0-9]+)/state")


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """The replicas of one partition, the preferred leader first, and those that a reassignment adds and
    removes."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicZnode:
    topic: str
    topic_id: Uuid | None
    """None if no controller of Kafka 2.8 or later has been there (KIP-516)."""
    partitions: Mapping[int, PartitionAssignment] = field(default_factory=dict)
    version: int = VERSION

    @property
    def path(self) -> str:
        return f"{TOPICS}/{self.topic}"

    def encode(self) -> bytes:
        partitions = self.partitions.items()
        fields: dict[str, object] = {
            "version": self.version,
            "partitions": _by_partition({number: one.replicas for number, one in partitions}),
            "adding_replicas": _by_partition(
                {number: one.adding for number, one in partitions if one.adding}
            ),
            "removing_replicas": _by_partition(
                {number: one.removing for number, one in partitions if one.removing}
            ),
        }
        if self.version < 2:
            del fields["adding_replicas"], fields["removing_replicas"]
        first = len(fields)
        if self.topic_id is not None:
            fields["topic_id"] = uuid_to_text(self.topic_id)
        return to_json(scala_mutable(fields, first=first))

    @classmethod
    def decode(cls, path: str, data: bytes) -> TopicZnode:
        """Raises `MalformedZnode`."""
        fields = JsonReader.parse(path, data)
        version = fields.check_version(1, VERSION)
        replicas = fields.object("partitions")
        adding = fields.optional_object("adding_replicas")
        removing = fields.optional_object("removing_replicas")
        partitions = {}
        for number in replicas.keys():  # noqa: SIM118 - no mapping
            if not number.isdecimal() or int(number) > NUMBER_MAX:
                raise fields.wrong("partitions", f"with {number!r}, which is no partition")
            partitions[int(number)] = PartitionAssignment(
                replicas.integers(number),
                adding.integers(number) if adding.has(number) else (),
                removing.integers(number) if removing.has(number) else (),
            )
        topic_id = fields.optional_text("topic_id")
        return cls(
            topic=path.removeprefix(f"{TOPICS}/"),
            topic_id=None if topic_id is None else uuid_from_text(path, topic_id),
            partitions=dict(sorted(partitions.items())),
            version=version,
        )


def _by_partition(lists: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return scala_mutable({str(number): list(one) for number, one in lists.items()})


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def state_path(topic: str, partition: int) -> str:
    return f"{partition_path(topic, partition)}/state"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


@dataclass(frozen=True, slots=True)
class PartitionStateZnode:
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = RECOVERED

    @property
    def path(self) -> str:
        return f"{partition_path(self.topic, self.partition)}/state"

    def encode(self) -> bytes:
        fields: dict[str, object] = {
            "version": 1,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "controller_epoch": self.controller_epoch,
            "isr": list(self.isr),
        }
        if self.leader_recovery_state != RECOVERED:
            fields["leader_recovery_state"] = self.leader_recovery_state
        return to_json(scala_immutable(fields))

    @classmethod
    def decode(cls, path: str, data: bytes) -> PartitionStateZnode:
        """Raises `MalformedZnode`."""
        match = STATE_PATH.fullmatch(path)
        if match is None:
            raise MalformedZnode(path, "no partition's state")
        fields = JsonReader.parse(path, data)
        recovery = fields.integer("leader_recovery_state", RECOVERED)
        if recovery not in (RECOVERED, RECOVERING):
            raise fields.wrong("leader_recovery_state", f"{recovery}, and 0 and 1 are known")
        return cls(
            topic=match[1],
            partition=int(match[2]),
            leader=fields.integer("leader"),
            leader_epoch=fields.integer("leader_epoch"),
            isr=fields.integers("isr"),
            controller_epoch=fields.integer("controller_epoch"),
            leader_recovery_state=recovery,
        )

    def under(self, controller_epoch: int) -> PartitionStateZnode:
        """The same state as a controller of this epoch writes it."""
        return replace(self, controller_epoch=controller_epoch)
