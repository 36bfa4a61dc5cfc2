"""Topics, partitions, configurations and producer ids as the controller's journal writes and reads them.

Source: ``TopicZNode``, ``TopicPartitionStateZNode``, ``ConfigEntityZNode``, ``ProducerIdBlockZNode`` of
Apache Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT, TOPIC
from barnabas.metadata.image.topic import PartitionState, Topic
from barnabas.types import ZERO_UUID, Uuid, uuid_from_text, uuid_text
from barnabas.zookeeper.znodes import TOPICS, ZnodeError, decode, encode

DEFAULT_ENTITY = "<default>"
_ENTITY_TYPES = {TOPIC: "topics", BROKER: "brokers"}


class TopicAssignment(NamedTuple):
    """Replicas by partition, and those that a reassignment adds and removes."""

    topic_id: Uuid
    """`ZERO_UUID` where the znode has none: it was made by an old tool."""
    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]


class PartitionLeaderState(NamedTuple):
    """The state znode of a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery: int


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partition_path(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}"


def state_path(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}/state"


def encode_topic(topic: Topic) -> bytes:
    """Version 3, which has a topic id."""
    partitions: dict[str, list[int]] = {}
    adding: dict[str, list[int]] = {}
    removing: dict[str, list[int]] = {}
    for index, replicas in enumerate(topic.replicas):
        if not replicas:
            continue
        partitions[str(index)] = list(replicas)
        rare = topic.rare.get(index)
        if rare is not None and rare.adding:
            adding[str(index)] = list(rare.adding)
        if rare is not None and rare.removing:
            removing[str(index)] = list(rare.removing)
    return encode(
        {
            "removing_replicas": removing,
            "partitions": partitions,
            "topic_id": uuid_text(topic.id),
            "adding_replicas": adding,
            "version": 3,
        }
    )


def decode_topic(name: str, data: bytes) -> TopicAssignment:
    """Every version. Raises :class:`ZnodeError`."""
    fields = decode(data, topic_path(name))
    try:
        text = fields.get("topic_id")
        return TopicAssignment(
            Uuid(uuid_from_text(text)) if text else ZERO_UUID,
            _lists(fields.get("partitions")),
            _lists(fields.get("adding_replicas")),
            _lists(fields.get("removing_replicas")),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise ZnodeError(f"{topic_path(name)} is no assignment: {error!r}") from error


def _lists(found: Any) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(map(int, ids)) for index, ids in (found or {}).items() if ids}


def encode_state(state: PartitionState, controller_epoch: int) -> bytes:
    """Version 1; a leader that recovers adds a field."""
    fields: dict[str, object] = {
        "controller_epoch": controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.recovery:
        fields["leader_recovery_state"] = state.recovery
    return encode(fields)


def decode_state(topic: str, index: int, data: bytes) -> PartitionLeaderState:
    """Raises :class:`ZnodeError`."""
    path = state_path(topic, index)
    fields = decode(data, path)
    try:
        return PartitionLeaderState(
            int(fields["leader"]),
            int(fields["leader_epoch"]),
            tuple(map(int, fields["isr"])),
            int(fields["controller_epoch"]),
            int(fields.get("leader_recovery_state", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeError(f"{path} is no partition's state: {error!r}") from error


def entity_path(kind: int, name: str) -> str | None:
    """Of a configuration resource below ``/config``; None where Kafka 3.9 has no such resource."""
    entity = _ENTITY_TYPES.get(kind)
    if entity is None:
        return None
    return f"{entity}/{DEFAULT_ENTITY if name == CLUSTER_DEFAULT and kind == BROKER else name}"


def resource_of(path: str) -> tuple[int, str] | None:
    """The resource of an entity path; None where it is of a kind that no image holds."""
    entity, _, name = path.partition("/")
    for kind, known in _ENTITY_TYPES.items():
        if known == entity and name and "/" not in name:
            return kind, CLUSTER_DEFAULT if name == DEFAULT_ENTITY else name
    return None


def encode_config(values: Mapping[str, str]) -> bytes:
    return encode({"version": 1, "config": {key: values[key] for key in sorted(values)}})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """Raises :class:`ZnodeError`."""
    if not data:
        return {}
    found = decode(data, path).get("config") or {}
    if not isinstance(found, dict):
        raise ZnodeError(f"{path} is no configuration")
    return {str(key): str(value) for key, value in found.items()}


def encode_producer_ids(broker: int, start: int, end: int) -> bytes:
    """A block, both ends inclusive."""
    return encode(
        {"version": 1, "broker": broker, "block_start": str(start), "block_end": str(end)}
    )


def decode_producer_ids(path: str, data: bytes) -> int:
    """The first id after the block; 0 where no block was given out yet. Raises :class:`ZnodeError`."""
    if not data:
        return 0
    try:
        return int(decode(data, path)["block_end"]) + 1
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeError(f"{path} is no block of producer ids") from error
