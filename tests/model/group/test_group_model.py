"""Members come, go, crash and commit, followers stop, coordinators change: what must hold all the same.

* A partition has at most one owner per generation (invariant 11), a static member's instance counting as one.
* A committed offset never goes back: what was acknowledged, or something younger, is read.
* No member commits for a generation that is not the present one.
* When faults end, the live members share all partitions in one stable generation.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.group.classic_group import GroupState
from barnabas.group.group_table import GroupTimer
from barnabas.group.machine import GroupMachine
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.wire.messages.sync_group_request import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from barnabas.wire.schema import Message
from tests.effort import examples
from tests.unit.group.world import Pending, World

PARTITIONS = 6
SUBSCRIPTION = b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"
LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
)


class Consumer:
    """A client that does what Kafka's do, one request at a time."""

    def __init__(self, number: int, instance: str | None) -> None:
        self.number = number
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.step = "join"
        self.members: list[str] = []
        self.owned: list[int] = []
        self.pending: Pending | None = None
        self.asked = ""
        self.offset = 0

    @property
    def owner(self) -> str:
        return self.instance or self.member_id

    def ask_join(self) -> Message:
        self.owned = []
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=15_000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )

    def ask_sync(self) -> Message:
        assignments = []
        for place, member_id in enumerate(self.members):
            share = bytes(range(place, PARTITIONS, len(self.members)))
            assignments.append(SyncGroupRequestAssignment(member_id=member_id, assignment=share))
        return SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )

    def ask_heartbeat(self) -> Message:
        return HeartbeatRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )

    def lost(self, code: int) -> None:
        self.step = "join"
        if code in LOST:
            self.owned = []
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""

    def on_join(self, answer: Any) -> None:
        code = answer.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code:
            self.lost(code)
        else:
            self.member_id = answer.member_id
            self.generation = answer.generation_id
            self.members = [m.member_id for m in answer.members]
            self.step = "sync"

    def on_sync(self, answer: Any) -> None:
        if answer.error_code:
            self.lost(answer.error_code)
            return
        self.step = "heartbeat"
        self.owned = list(bytes(answer.assignment))

    def on_heartbeat(self, answer: Any) -> None:
        code = answer.error_code
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            return
        if code:
            self.lost(code)


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.topic("t", PARTITIONS)
        self.consumers: dict[int, Consumer] = {}
        self.owners: dict[tuple[int, int], str] = {}
        """Who was given a partition, by generation and partition."""
        self.acknowledged = [0] * PARTITIONS
        self.offsets = 0
        self.commits: list[tuple[Pending, Consumer, int, int]] = []
        self.stale: list[Pending] = []

    # -- consumers -------------------------------------------------------------------------------

    @rule(number=st.integers(0, 3), static=st.booleans())
    def start(self, number: int, static: bool) -> None:
        """A process begins; one that ran in its place is dead."""
        self.consumers[number] = Consumer(number, f"instance{number}" if static else None)

    @rule(number=st.integers(0, 3))
    def crash(self, number: int) -> None:
        self.consumers.pop(number, None)

    @rule(number=st.integers(0, 3))
    def act(self, number: int) -> None:
        """The consumer does its next step, if it is not waiting."""
        consumer = self.consumers.get(number)
        if consumer is not None and consumer.pending is None:
            consumer.asked = consumer.step
            consumer.pending = self.world.send(getattr(consumer, f"ask_{consumer.step}")())
        self._poll()

    @rule()
    def act_all(self) -> None:
        for number in sorted(self.consumers):
            self.act(number)

    @rule(number=st.integers(0, 3))
    def rejoin(self, number: int) -> None:
        """The consumer's subscription changed: it joins again."""
        consumer = self.consumers.get(number)
        if consumer is not None and consumer.pending is None:
            consumer.step = "join"
            self.act(number)

    @rule(number=st.integers(0, 3))
    def leave(self, number: int) -> None:
        consumer = self.consumers.pop(number, None)
        if consumer is not None and consumer.member_id:
            identity = MemberIdentity(
                member_id=consumer.member_id, group_instance_id=consumer.instance
            )
            self.world.send(LeaveGroupRequest(group_id="g", members=[identity]))
        self._poll()

    @rule(number=st.integers(0, 3), partition=st.integers(0, PARTITIONS - 1))
    def commit(self, number: int, partition: int) -> None:
        consumer = self.consumers.get(number)
        if consumer is not None and partition in consumer.owned:
            generation = consumer.generation
            before = self._generation()
            pending = self._send_commit(consumer, partition, generation)
            if before is not None and before != generation:
                self.stale.append(pending)
        self._poll()

    def _send_commit(self, consumer: Consumer, partition: int, generation: int) -> Pending:
        self.offsets += 1
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=self.offsets
        )
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=generation,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
        )
        pending = self.world.send(request, 9)
        self.commits.append((pending, consumer, partition, self.offsets))
        return pending

    # -- answers ---------------------------------------------------------------------------------

    def _poll(self) -> None:
        for number in sorted(self.consumers):
            consumer = self.consumers[number]
            if consumer.pending is not None and consumer.pending.answer is not None:
                answer, consumer.pending = consumer.pending.answer, None
                getattr(consumer, f"on_{consumer.asked}")(answer)
                if consumer.asked == "sync":
                    self._note_owner(consumer)
        waiting = []
        for commit in self.commits:
            pending, _, partition, offset = commit
            if pending.answer is None:
                waiting.append(commit)
            elif pending.answer.topics[0].partitions[0].error_code == 0:
                self.acknowledged[partition] = max(self.acknowledged[partition], offset)
        self.commits = waiting
        for pending in self.stale:
            if pending.answer is not None:
                code = pending.answer.topics[0].partitions[0].error_code
                assert code != 0, "a commit of another generation was accepted"
        self.stale = [pending for pending in self.stale if pending.answer is None]

    def _note_owner(self, consumer: Consumer) -> None:
        for partition in consumer.owned:
            owner = self.owners.setdefault((consumer.generation, partition), consumer.owner)
            assert owner == consumer.owner, (
                f"partition {partition} has two owners in generation {consumer.generation}:"
                f" {owner} and {consumer.owner}"
            )

    # -- the world -------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([10, 1_000, 3_000, 6_000, 12_000]))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)
        self._poll()

    @rule()
    def followers_stop(self) -> None:
        self.world.held = True

    @rule()
    def followers_resume(self) -> None:
        self.world.held = False
        self.world.settle()
        self._poll()

    @rule(refuse=st.booleans())
    def appends(self, refuse: bool) -> None:
        self.world.logs[0].refusal = ErrorCode.NOT_ENOUGH_REPLICAS if refuse else None

    @rule(lossy=st.booleans())
    def coordinator_changes(self, lossy: bool) -> None:
        """Another broker leads; ``lossy`` where it had only what was committed."""
        self.world.resign()
        self._poll()
        if lossy:
            self.world.logs[0].truncate()
        self.world.elect()
        self._poll()

    @initialize()
    def begin(self) -> None:
        for number in range(2):
            self.start(number, False)

    def _machine(self) -> GroupMachine:
        return self.world.groups._shards[0].machine

    def _generation(self) -> int | None:
        """Of the group; None where it has no members, so that any client may commit."""
        group = self._machine().table.classic("g")
        if group is None or group.state is GroupState.EMPTY:
            return None
        return group.generation

    # -- what holds ------------------------------------------------------------------------------

    @invariant()
    def offsets_do_not_go_back(self) -> None:
        if self.world.groups.shards[0].active:
            group = OffsetFetchRequestGroup(group_id="g", topics=None)
            answer = self.world.ask(OffsetFetchRequest(groups=[group]), 9).groups[0]
            read = {
                p.partition_index: p.committed_offset for t in answer.topics for p in t.partitions
            }
            for partition, offset in enumerate(self.acknowledged):
                assert read.get(partition, 0) >= offset, (partition, offset, read)

    @invariant()
    def the_group_is_in_order(self) -> None:
        table = self._machine().table
        group = table.classic("g")
        if group is None or not self.world.groups._shards[0].active:
            return
        self._machine().validate()
        members = group.members
        assert group.leader_id in members if members else group.leader_id is None
        assert set(group.static_members.values()) <= set(members)
        assert set(group.pending_syncs) <= set(members)
        assert not set(group.pending_joins) & set(members)
        assert (group.state is GroupState.EMPTY) <= (not members)
        for member in members.values():
            waits = member.parked_join is not None or member.parked_sync is not None
            session = table.timers.pending((GroupTimer.SESSION, "g", member.member_id))
            assert waits or session is not None, f"{member!r} would never be missed"

    def teardown(self) -> None:
        """Faults end: the group settles, and every partition has an owner."""
        self.appends(False)
        self.followers_resume()
        for _ in range(60):
            self.act_all()
            self.wait(1_000)
        group = self._machine().table.classic("g")
        if not self.consumers:
            assert group is None or group.state is GroupState.EMPTY
            return
        assert group is not None
        assert group.state is GroupState.STABLE, group.describe()
        assert len(group.members) == len(self.consumers)
        owned = sorted(p for consumer in self.consumers.values() for p in consumer.owned)
        assert owned == list(range(PARTITIONS))


Groups.TestCase.settings = settings(max_examples=examples(120), stateful_step_count=40)
TestGroups = Groups.TestCase
