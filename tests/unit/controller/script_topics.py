"""Commands of the controller's scripts about placement, topics, states and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from barnabas.metadata.image import partition_states
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.unit.controller.harness import World, uuid


def place(world: World, name: str, partitions: str, factor: str) -> str | None:
    """``t 3 2``: the controller places that many partitions and replicas."""
    topic = CreatableTopic(
        name=name, num_partitions=int(partitions), replication_factor=int(factor)
    )
    return _said(world.ask(CreateTopicsRequest(topics=[topic])).topics[0])


def grow(world: World, name: str, total: str) -> str | None:
    """Up to so many partitions."""
    topic = CreatePartitionsTopic(name=name, count=int(total), assignments=None)
    return _said(world.ask(CreatePartitionsRequest(topics=[topic])).results[0])


def cordon(world: World, *brokers: str) -> None:
    """No log directory of these takes new replicas."""
    for broker in map(int, brokers):
        world.heartbeat(broker, cordoned_log_dirs=[uuid(2000 + broker)])


def spread(world: World, name: str) -> str:
    """How many replicas and leaderships of a topic each broker has."""
    topic = world.image.topics_by_name[name]
    replicas = Counter(broker for replicas in topic.replicas for broker in replicas)
    leaders = Counter(topic.leader)
    return " ".join(f"{b}:{replicas[b]}/{leaders[b]}" for b in sorted(world.epochs))


def is_(world: World, partition: str) -> str:
    """The partition's state (NonExistent, New, Online, Offline)."""
    name, _, index = partition.rpartition("-")
    topic = world.image.topics_by_name.get(name)
    if topic is None or not topic.has(int(index)):
        return partition_states.NON_EXISTENT
    return partition_states.state_of(topic.leader[int(index)], topic.leader_epoch[int(index)])


def refused(world: World) -> str:
    """The last decision that was refused or left alone, with its reason."""
    note = world.controller.refusals.since()[-1]
    return f"{note.subject} {note.code}: {note.reason}"


def noted(world: World) -> str:
    """How many decisions were refused or left alone."""
    return str(len(world.controller.refusals.since()))


def _said(answer: object) -> str | None:
    code = getattr(answer, "error_code", 0)
    if not code:
        return None
    return f"{ErrorCode(code).name}: {getattr(answer, 'error_message', '') or ''}"


COMMANDS: dict[str, Callable[..., str | None]] = {
    "place": place, "grow": grow, "cordon": cordon, "spread": spread, "is": is_,
    "refused": refused, "noted": noted,
}  # fmt: skip
