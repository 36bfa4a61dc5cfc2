"""Commands of the consumer protocol for the text scripts, and how its records are shown.

A client's member id is its name. Partitions are shown as ``topic/index``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from barnabas.metadata.image.image import GROUP, MetadataImage
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import consumer_group_describe_request as describe
from barnabas.wire.messages import consumer_group_heartbeat_request as beat
from tests.unit.group.answers import TELL, Alias, Client
from tests.unit.group.world import World

STATES = {0: "stable", 1: "unrevoked", 2: "unreleased"}


class Sender(Protocol):
    world: World
    clients: dict[str, Client]

    def _client(self, name: str) -> Client: ...
    def _send(
        self, what: str, client: Client, request: Any, version: str | None = None
    ) -> None: ...


class ConsumerRequests:
    """``hello`` joins, ``beat`` keeps alive, ``bye`` leaves."""

    world: World

    def do_hello(self: Sender, *names: str, **given: str) -> None:
        """``topics=t,u regex=t.* instance=i rack=a timeout=60000 assignor=range owns=t/0 version=1``."""
        for name in names:
            client = self._client(name)
            client.options.update(given)
            client.group = given.get("group", client.group)
            client.instance = given.get("instance", client.instance)
            client.member_id, client.epoch, client.owned = given.get("id", name), 0, {}
            self._send("beat", client, request_of(self.world, client, True), "1")

    def do_beat(self: Sender, *names: str, **given: str) -> None:
        """``owns=all`` says what it was assigned, ``owns=none`` nothing, ``epoch=3`` another epoch."""
        for name in names:
            client = self._client(name)
            request = request_of(self.world, client, False, **given)
            self._send("beat", client, request, given.get("version", "1"))

    def do_bye(self: Sender, *names: str, epoch: str = "-1") -> None:
        for name in names:
            client = self._client(name)
            request = beat.ConsumerGroupHeartbeatRequest(
                group_id=client.group,
                member_id=client.member_id,
                member_epoch=int(epoch),
                instance_id=client.instance,
            )
            self._send("beat", client, request, "1")

    def do_tell(self: Sender, *groups: str) -> None:
        """ConsumerGroupDescribe."""
        request = describe.ConsumerGroupDescribeRequest(group_ids=list(groups))
        self._send("tell", self._client("-"), request)

    def do_grow(self: Sender, name: str, partitions: str) -> None:
        """A topic has that many partitions from now on."""
        topic = self.world.image.topics_by_name[name]
        for index in range(len(topic), int(partitions)):
            self.world.image.replay(
                PartitionRecord(
                    partition_id=index, topic_id=topic.id, replicas=[1], isr=[1], leader=1
                )
            )
        self.world.tell()

    def do_group_config(self: Sender, group: str, **given: str) -> None:
        for key, value in given.items():
            name = key.replace("_", ".")
            record = ConfigRecord(resource_type=GROUP, resource_name=group, name=name, value=value)
            self.world.image.replay(record)
        self.world.tell()


def request_of(
    world: World, client: Client, first: bool = False, *, owns: str = "", **given: str
) -> beat.ConsumerGroupHeartbeatRequest:
    options = client.options
    client.names |= {topic.id: topic.name for topic in world.image.topics_by_id.values()}
    request = beat.ConsumerGroupHeartbeatRequest(
        group_id=client.group,
        member_id=client.member_id,
        member_epoch=int(given.get("epoch", client.epoch)),
        instance_id=client.instance,
    )
    if first or given.keys() & {"topics", "regex"}:
        options.update(given)
        request.subscribed_topic_names = [t for t in options.get("topics", "t").split(",") if t]
        request.subscribed_topic_regex = options.get("regex")
    if first:
        request.rebalance_timeout_ms = int(options.get("timeout", "60000"))
        request.rack_id = options.get("rack")
        request.server_assignor = options.get("assignor")
        request.topic_partitions = []
    if owns == "all":
        request.topic_partitions = _owned(world.image, client.owned)
    elif owns:
        request.topic_partitions = []
    return request


def _owned(image: MetadataImage, owned: Mapping[str, Sequence[int]]) -> list[beat.TopicPartitions]:
    return [
        beat.TopicPartitions(topic_id=image.topics_by_name[topic].id, partitions=list(parts))
        for topic, parts in owned.items()
        if topic in image.topics_by_name
    ]


def places(parts: Sequence[Any], image: MetadataImage) -> str:
    """``t/0 t/1``; a topic that is gone by its id."""
    names: dict[Uuid, str] = {topic.id: topic.name for topic in image.topics_by_id.values()}
    found = [
        f"{names.get(part.topic_id, part.topic_id.hex()[-2:])}/{index}"
        for part in parts
        for index in part.partitions
    ]
    return " ".join(found) or "nothing"


def tell_record(key: Any, value: Any, image: MetadataImage) -> str:
    """A record of a consumer group."""
    kind = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
    who = getattr(key, "member_id", getattr(key, "regular_expression", ""))
    head = f"{key.group_id} {kind}" + (f" {who}" if who else "")
    if value is None:
        return f"{head} deleted"
    if kind == "Metadata":
        return f"{head} epoch {value.epoch}"
    if kind == "TargetAssignmentMetadata":
        return f"{head} epoch {value.assignment_epoch}"
    if kind == "TargetAssignmentMember":
        return f"{head}: {places(value.topic_partitions, image)}"
    if kind == "RegularExpression":
        return f"{head}: {','.join(value.topics) or 'nothing'}"
    if kind == "MemberMetadata":
        is_classic = bool(value.classic_member_metadata.supported_protocols)
        classic = ", classic" if is_classic else ""
        regex = f" and {value.subscribed_topic_regex}" if value.subscribed_topic_regex else ""
        return f"{head}: {','.join(value.subscribed_topic_names) or 'nothing'}{regex}{classic}"
    revoking = ""
    if value.partitions_pending_revocation:
        revoking = f", revokes {places(value.partitions_pending_revocation, image)}"
    state = STATES.get(value.state, str(value.state))
    return (
        f"{head} epoch {value.member_epoch} {state}: "
        f"{places(value.assigned_partitions, image)}{revoking}"
    )


def tell_beat(client: Client, answer: Any, alias: Alias) -> list[str]:
    if answer.error_code:
        return [f"{client.name} {ErrorCode(answer.error_code).name}"]
    client.member_id, client.epoch = answer.member_id or client.member_id, answer.member_epoch
    text = f"{client.name} epoch {answer.member_epoch}"
    if answer.heartbeat_interval_ms not in (0, 5000):
        text += f", again in {answer.heartbeat_interval_ms} ms"
    if answer.assignment is not None:
        client.owned = {}
        for part in answer.assignment.topic_partitions:
            client.owned[client.names[part.topic_id]] = list(part.partitions)
        found = [f"{topic}/{index}" for topic, parts in client.owned.items() for index in parts]
        text += f": {' '.join(found) or 'nothing'}"
    return [text]


def tell_group(client: Client, answer: Any, alias: Alias) -> list[str]:
    lines = []
    for group in answer.groups:
        if group.error_code:
            lines.append(f"{group.group_id} {ErrorCode(group.error_code).name}")
            continue
        lines.append(
            f"{group.group_id} {group.group_state}, epoch {group.group_epoch}, assignment"
            f" {group.assignment_epoch}, {group.assignor_name}"
        )
        lines += [
            f"  {alias(m.member_id)} epoch {m.member_epoch}"
            f" {'classic' if m.member_type == 0 else 'consumer'}:"
            f" {_named(m.assignment)} of {_named(m.target_assignment)}"
            for m in group.members
        ]
    return lines


def _named(assignment: Any) -> str:
    found = [f"{p.topic_name}/{i}" for p in assignment.topic_partitions for i in p.partitions]
    return " ".join(found) or "nothing"


TELL["beat"] = tell_beat
TELL["tell"] = tell_group
