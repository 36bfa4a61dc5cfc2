"""Clients of both protocols that do what Kafka's do, one request at a time, for the model of groups."""

from __future__ import annotations

from typing import Any

from barnabas.wire.codec import decode, encode_bytes
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from barnabas.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.schema import Message
from tests.unit.group.world import Pending, World

FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
TOPIC = "t"


class ConsumerClient:
    """KIP-848: `owned` is what it reads, `assigned` its last assignment."""

    classic = False

    def __init__(self, world: World, name: str, instance: str | None) -> None:
        self.world = world
        self.member_id = name
        self.instance = instance
        self.epoch = 0
        self.owned: set[int] = set()
        self.assigned: set[int] = set()
        self.pending: Pending | None = None
        self.forgets = False
        """The next answer is lost on its way."""

    @property
    def revokes(self) -> bool:
        """Has to give up what it still reads."""
        return not self.owned <= self.assigned

    def ask(self) -> Message:
        topic = self.world.image.topics_by_name[TOPIC]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=15_000,
            subscribed_topic_names=[TOPIC],
        )
        owned = sorted(self.owned)
        request.topic_partitions = (
            [TopicPartitions(topic_id=topic.id, partitions=owned)] if owned else []
        )
        return request

    def take(self, answer: Any) -> None:
        if self.forgets:
            self.forgets = False
            return
        code = answer.error_code
        if code in FENCED:
            self.epoch, self.owned, self.assigned = 0, set(), set()
        elif not code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                parts = answer.assignment.topic_partitions
                self.assigned = {index for part in parts for index in part.partitions}

    def reconcile(self) -> None:
        """Give up what is no longer assigned, begin to read what is."""
        self.owned &= self.assigned
        self.owned |= self.assigned


class ClassicClient:
    """The classic protocol with eager rebalances: it gives everything up before it joins."""

    classic = True
    instance = None
    revokes = False

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.member_id = ""
        self.epoch = -1
        self.step = "join"
        self.asked = ""
        self.members: list[str] = []
        self.owned: set[int] = set()
        self.pending: Pending | None = None
        self.forgets = False

    def ask(self) -> Message:
        self.asked = self.step
        if self.step == "join":
            self.owned = set()
            metadata = ConsumerProtocolSubscription(topics=[TOPIC], user_data=None)
            data = b"\0\1" + encode_bytes(metadata, 1)
            return JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=15_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=data)],
            )
        if self.step == "sync":
            return SyncGroupRequest(
                group_id="g",
                generation_id=self.epoch,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[self._share(place) for place in range(len(self.members))],
            )
        return HeartbeatRequest(group_id="g", generation_id=self.epoch, member_id=self.member_id)

    def _share(self, place: int) -> SyncGroupRequestAssignment:
        count = len(self.world.image.topics_by_name[TOPIC])
        part = TopicPartition(topic=TOPIC, partitions=list(range(place, count, len(self.members))))
        message = ConsumerProtocolAssignment(assigned_partitions=[part], user_data=None)
        return SyncGroupRequestAssignment(
            member_id=self.members[place], assignment=b"\0\0" + encode_bytes(message, 0)
        )

    def take(self, answer: Any) -> None:
        if self.forgets:
            self.forgets, self.step = False, "join"
            return
        code = answer.error_code
        if code:
            self._lost(code, answer)
        elif self.asked == "join":
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self.members = [member.member_id for member in answer.members]
            self.step = "sync"
        elif self.asked == "sync":
            data = bytes(answer.assignment)
            found = decode(ConsumerProtocolAssignment, 0, data[2:]).assigned_partitions
            self.owned = {index for part in found for index in part.partitions}
            self.step = "beat"

    def _lost(self, code: int, answer: Any) -> None:
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            if self.asked != "beat":
                self.step = "join"
            return
        self.step = "join"
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned = set()

    def reconcile(self) -> None:
        """Nothing: it has all of its assignment at once."""
