"""One machine with streams groups, its log and the topics that it knows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.config.node import NodeConfig
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.streams.heartbeat import InternalTopics, heartbeat
from barnabas.group.streams.joining import check_request
from barnabas.group.streams.streams_group import StreamsGroup
from barnabas.metadata.image.image import GROUP, MetadataImage
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.operation import Instant
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import streams_group_heartbeat_request as asked
from barnabas.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9,CONTROLLER://127.0.0.1:8",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:8",
    "log.dirs": "/nowhere",
}
NO_DELAY = {"group.streams.initial.rebalance.delay.ms": "0"}
Roles = tuple[list[str], list[str], list[str]]


def part(
    part_id: str = "0",
    sources: Iterable[str] = ("t",),
    changelogs: Iterable[str] = (),
    sinks: Iterable[str] = (),
    repartition: Mapping[str, int] | None = None,
    copartitioned: tuple[Iterable[int], Iterable[int]] | None = None,
) -> asked.Subtopology:
    """A subtopology; `repartition` are its repartition sources with the partitions they ask for."""
    groups = []
    if copartitioned is not None:
        groups = [
            asked.CopartitionGroup(
                source_topics=list(copartitioned[0]),
                repartition_source_topics=list(copartitioned[1]),
            )
        ]
    return asked.Subtopology(
        subtopology_id=part_id,
        source_topics=list(sources),
        state_changelog_topics=[_topic(name, 0) for name in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[_topic(n, count) for n, count in (repartition or {}).items()],
        copartition_groups=groups,
    )


def _topic(name: str, partitions: int) -> asked.TopicInfo:
    config = asked.KeyValue(key="cleanup.policy", value="compact")
    return asked.TopicInfo(name=name, partitions=partitions, topic_configs=[config])


def topology(*parts: asked.Subtopology, epoch: int = 0) -> asked.Topology:
    return asked.Topology(epoch=epoch, subtopologies=list(parts or (part(),)))


def task_ids(text: Iterable[str]) -> list[asked.TaskIds]:
    """Tasks written as ``subtopology_partition``."""
    found: dict[str, list[int]] = {}
    for item in text:
        part_id, _, index = item.partition("_")
        found.setdefault(part_id, []).append(int(index))
    return [asked.TaskIds(subtopology_id=key, partitions=own) for key, own in found.items()]


def tasks_in(ids: Iterable[Any] | None) -> list[str]:
    return [f"{item.subtopology_id}_{index}" for item in ids or () for index in item.partitions]


class StreamsWorld:
    """One machine and its log."""

    def __init__(self, **properties: str) -> None:
        self.image = MetadataImage()
        given = {key.replace("_", "."): value for key, value in properties.items()}
        self.config = NodeConfig.from_properties(PROPERTIES | NO_DELAY | given)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now_ms = 1_000_000.0
        self.machine = self.new_machine()
        self.roles: dict[str, Roles] = {}
        """The tasks of each member by role, from the last answer that named them."""
        self.epochs: dict[str, int] = {}
        self.topology = topology()
        self.missing: InternalTopics = {}

    def new_machine(self) -> GroupMachine:
        cluster = ClusterTopics(self.image, lambda: self.config.texts)
        rng: Any = random.Random(1)
        return GroupMachine(self.config.groups, self.config.offsets, rng, cluster)

    def add_topic(self, name: str, partitions: int) -> None:
        topic = self.image.topics_by_name.get(name)
        first = 0 if topic is None else len(topic)
        topic_id = topic.id if topic is not None else Uuid(name.encode().ljust(16, b"\0")[:16])
        if topic is None:
            self.image.replay(TopicRecord(name=name, topic_id=topic_id))
        for index in range(first, partitions):
            self.image.replay(
                PartitionRecord(
                    partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1
                )
            )
        self._tell(name)

    def remove_topic(self, name: str) -> None:
        topic = self.image.topics_by_name[name]
        self.image.replay(RemoveTopicRecord(topic_id=topic.id))
        self._tell(name)

    def _tell(self, name: str) -> None:
        self.machine.table.cluster.changed([name], new=True)
        self.machine.table.on_topics_changed([name])

    def create_missing(self) -> None:
        """The controller creates the internal topics that the last heartbeat named."""
        for topic in self.missing.values():
            self.add_topic(topic.name, topic.partitions)

    def group_config(self, key: str, value: str, group_id: str = "g") -> None:
        record = ConfigRecord(resource_type=GROUP, resource_name=group_id, name=key, value=value)
        self.image.replay(record)

    @property
    def at(self) -> Instant:
        return Instant(self.now_ms, int(self.now_ms))

    @property
    def group(self) -> StreamsGroup:
        group = self.machine.table.streams("g")
        assert group is not None
        return group

    def run(self, outcome: GroupOutcome, *, lost: bool = False) -> Any:
        machine, begin = self.machine, len(self.log)
        for record in outcome.records:
            self.log.append(machine.encode(record))
            decoded = machine.decode(*self.log[-1])
            assert decoded is not None
            if outcome.replay:
                machine.replay(len(self.log) - 1, -1, decoded)
        if lost:
            machine.revert_to(begin)
            del self.log[begin:]
        machine.expect(len(self.log))
        machine.commit_to(len(self.log))
        if outcome.on_settled is not None:
            code = ErrorCode.NOT_ENOUGH_REPLICAS if lost else ErrorCode.NONE
            outcome.on_settled(code, self.at)
        machine.validate()
        return outcome.reply

    def reload(self) -> None:
        """Another coordinator takes over."""
        self.machine = machine = self.new_machine()
        for offset, (key, value) in enumerate(self.log):
            decoded = machine.decode(key, value)
            assert decoded is not None
            machine.replay(offset, -1, decoded)
        machine.expect(len(self.log))
        machine.commit_to(len(self.log))
        machine.on_loaded(self.at)
        machine.validate()

    def wait(self, ms: float) -> None:
        """Time passes, and what is due is done."""
        end = self.now_ms + ms
        while self.machine.deadline_ms() <= end:
            self.now_ms = max(self.now_ms, self.machine.deadline_ms())
            outcome = self.machine.take_due(self.at)
            if outcome is None:
                continue
            self.run(outcome)
        self.now_ms = end

    def send(
        self, request: StreamsGroupHeartbeatRequest, *, version: int = 1, lost: bool = False
    ) -> Any:
        check_request(request)
        caller = Caller("c", "/127.0.0.1", version)
        outcome, self.missing = heartbeat(self.machine.table, request, caller, self.at)
        reply = self.run(outcome, lost=lost)
        self.machine.table.take_replies()
        if not lost and request.member_epoch >= 0:
            self.epochs[request.member_id] = reply.member_epoch
            if reply.active_tasks is not None:
                self.roles[request.member_id] = (
                    tasks_in(reply.active_tasks),
                    tasks_in(reply.standby_tasks),
                    tasks_in(reply.warmup_tasks),
                )
        return reply

    def join(self, member_id: str, *, lost: bool = False, **fields: Any) -> Any:
        fields.setdefault("topology", self.topology)
        fields.setdefault("process_id", f"p-{member_id}")
        return self.send(
            StreamsGroupHeartbeatRequest(
                group_id="g",
                member_id=member_id,
                endpoint_information_epoch=-1,
                rebalance_timeout_ms=60_000,
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                **fields,
            ),
            lost=lost,
        )

    def beat(self, member_id: str, *, says: bool = True, lost: bool = False, **fields: Any) -> Any:
        """`says`: the member reports the tasks of the last answer that named them."""
        fields.setdefault("member_epoch", self.epochs[member_id])
        if says:
            roles = self.roles[member_id]
            fields.setdefault("active_tasks", task_ids(roles[0]))
            fields.setdefault("standby_tasks", task_ids(roles[1]))
            fields.setdefault("warmup_tasks", task_ids(roles[2]))
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member_id, **fields)
        return self.send(request, lost=lost)

    def leave(self, member_id: str, epoch: int = -1, **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, **fields
        )
        return self.send(request)

    def settle(self, *member_ids: str, rounds: int = 6) -> None:
        """Members send heartbeats until nothing moves."""
        for _ in range(rounds):
            self.now_ms += 1_100
            for member_id in member_ids or tuple(self.epochs):
                self.beat(member_id)

    def active(self, member_id: str) -> list[str]:
        return self.roles[member_id][0]

    def standby(self, member_id: str) -> list[str]:
        return self.roles[member_id][1]
