"""A share group assigns what has state at the share coordinator, and forgets nothing on the way."""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.config.node import NodeConfig
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.queries import list_groups
from barnabas.group.share import heartbeat, offsets
from barnabas.group.share.describing import describe_share_group
from barnabas.group.share.heartbeat import CHOSEN_BY_LEADER, Initialization
from barnabas.group.share.simple import assign_simply
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.operation import Instant
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.join_group_request import JoinGroupRequest
from barnabas.wire.messages.offset_commit_request import OffsetCommitRequest
from barnabas.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from barnabas.wire.request import Parked

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9,CONTROLLER://127.0.0.1:8",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:8",
    "log.dirs": "/nowhere",
}
TOPIC = Uuid(bytes(15) + b"\x01")
OTHER = Uuid(bytes(15) + b"\x02")


class World:
    """One machine and its log."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.config = NodeConfig.from_properties(PROPERTIES)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now_ms = 1_000_000.0
        self.machine = self.new_machine()
        self.add_topic("t", TOPIC, 2)

    def new_machine(self) -> GroupMachine:
        cluster = ClusterTopics(self.image, lambda: self.config.texts)
        rng: Any = random.Random(1)
        return GroupMachine(self.config.groups, self.config.offsets, rng, cluster)

    def add_topic(self, name: str, topic_id: Uuid, partitions: int) -> None:
        if topic_id not in self.image.topics_by_id:
            self.image.replay(TopicRecord(name=name, topic_id=topic_id))
        for index in range(partitions):
            self.add_partition(name, topic_id, index)

    def add_partition(self, name: str, topic_id: Uuid, index: int) -> None:
        self.image.replay(
            PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
        )
        self.machine.table.cluster.changed([name], new=True)
        self.machine.table.on_topics_changed([name])

    @property
    def at(self) -> Instant:
        return Instant(self.now_ms, int(self.now_ms))

    def run(self, outcome: GroupOutcome, *, lost: bool = False) -> Any:
        machine, begin = self.machine, len(self.log)
        for record in outcome.records:
            self.log.append(machine.encode(record))
            decoded = machine.decode(*self.log[-1])
            assert decoded is not None
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
        self.machine = machine = self.new_machine()
        for offset, (key, value) in enumerate(self.log):
            decoded = machine.decode(key, value)
            assert decoded is not None
            machine.replay(offset, -1, decoded)
        machine.expect(len(self.log))
        machine.commit_to(len(self.log))
        machine.on_loaded(self.at)

    def beat(
        self, member: str, epoch: int, *topics: str, lost: bool = False
    ) -> tuple[Any, Initialization | None]:
        request = ShareGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )
        outcome, missing = heartbeat.heartbeat(
            self.machine.table, request, Caller("c", "/127.0.0.1"), self.at
        )
        return self.run(outcome, lost=lost), missing

    def epoch_of(self, member: str) -> int:
        group = self.machine.table.share("g")
        assert group is not None
        return group.member(member).epoch

    def initialize(self, wanted: Initialization | None) -> None:
        assert wanted is not None
        done = {topic_id: frozenset(starts) for topic_id, starts in wanted.offsets.items()}
        self.run(offsets.on_initialized(self.machine.table, "g", done))

    def join(self, member: str, *topics: str) -> Any:
        """A member joins, and beats until it has its partitions."""
        answer, missing = self.beat(member, 0, *(topics or ("t",)))
        if missing is not None:
            self.initialize(missing)
        for _ in range(2):
            self.now_ms += 1_100
            answer, _ = self.beat(member, answer.member_epoch, *(topics or ("t",)))
        return answer


def parts(answer: Any) -> dict[Uuid, list[int]]:
    assert answer.assignment is not None
    return {p.topic_id: list(p.partitions) for p in answer.assignment.topic_partitions}


def refusal(call: Any, *arguments: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call(*arguments)
    return ErrorCode(caught.value.code)


def test_a_partition_is_assigned_once_it_has_state() -> None:
    world = World()
    answer, missing = world.beat("m", 0, "t")
    assert parts(answer) == {}
    assert missing == Initialization("g", 1, {TOPIC: {0: CHOSEN_BY_LEADER, 1: CHOSEN_BY_LEADER}})
    again, asked = world.beat("m", answer.member_epoch, "t")
    assert asked is None, "it is asked for already"
    assert again.heartbeat_interval_ms < 5_000, "the member hears of it soon"
    world.initialize(missing)
    world.now_ms += 1_100
    answer, _ = world.beat("m", again.member_epoch, "t")
    assert parts(answer) == {TOPIC: [0, 1]}
    assert answer.heartbeat_interval_ms == 5_000


def test_an_initialization_that_fails_is_asked_for_again() -> None:
    world = World()
    answer, missing = world.beat("m", 0, "t")
    assert missing is not None
    failed = {TOPIC: frozenset({0, 1})}
    world.run(offsets.on_not_initialized(world.machine.table, "g", failed))
    _, again = world.beat("m", answer.member_epoch, "t")
    assert again is not None and again.offsets == missing.offsets


def test_a_new_coordinator_asks_again_for_what_stays_uninitialized() -> None:
    world = World()
    answer, _ = world.beat("m", 0, "t")
    world.reload()
    _, asked = world.beat("m", answer.member_epoch, "t")
    assert asked is None, "the earlier coordinator's request may be under way"
    world.now_ms += world.config.groups.share_initialize_retry_interval_ms
    _, again = world.beat("m", answer.member_epoch, "t")
    assert again is not None and set(again.offsets) == {TOPIC}


def test_an_initialization_whose_record_is_lost_is_asked_for_again() -> None:
    world = World()
    world.beat("m", 0, "t", lost=True)
    _, again = world.beat("m", 0, "t")
    assert again is not None


def test_more_members_than_partitions_share_them() -> None:
    world = World()
    answers = {name: world.join(name) for name in ("m1", "m2", "m3", "m4")}
    world.now_ms += 1_100
    last = [world.beat(name, answers[name].member_epoch, "t")[0] for name in answers]
    owned = [place for answer in last for place in parts(answer).get(TOPIC, [])]
    assert sorted(owned) == [0, 0, 1, 1]


def test_a_member_that_leaves_makes_room() -> None:
    world = World()
    first = world.join("m1")
    world.join("m2")
    world.beat("m2", -1)
    world.now_ms += 1_100
    answer, _ = world.beat("m1", first.member_epoch, "t")
    assert parts(answer) == {TOPIC: [0, 1]}


def test_a_silent_member_is_removed() -> None:
    world = World()
    world.join("m1")
    world.now_ms += 45_001
    due = world.machine.take_due(world.at)
    while due is not None:
        world.run(due)
        due = world.machine.take_due(world.at)
    described = describe_share_group(world.machine.table, "g")
    assert (described.group_state, list(described.members)) == ("Empty", [])


def test_a_new_coordinator_knows_the_group() -> None:
    world = World()
    answer = world.join("m1")
    before = describe_share_group(world.machine.table, "g")
    world.reload()
    assert describe_share_group(world.machine.table, "g") == before
    again, _ = world.beat("m1", answer.member_epoch, "t")
    assert parts(again) == {TOPIC: [0, 1]}


def test_a_wrong_epoch_is_fenced() -> None:
    world = World()
    epoch = world.join("m1").member_epoch
    assert refusal(world.beat, "m1", epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH
    for other in ("m3", "m4"):
        world.join(other)
        world.now_ms += 1_100
        world.beat("m1", world.epoch_of("m1"))
    assert refusal(world.beat, "m1", epoch) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(world.beat, "m2", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(world.beat, "m2", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_other_kinds_of_groups_keep_out() -> None:
    world = World()
    world.join("m1")
    machine, parked = world.machine, Parked()
    replies: list[Any] = []
    parked.attach(replies.append)
    request = JoinGroupRequest(group_id="g", member_id="", protocol_type="consumer")
    for waiting, reply in machine.join_group(request, Caller(), parked, world.at).replies:
        waiting.complete(reply)
    assert replies[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    commit = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1)
    code = refusal(machine.commit_offsets, commit, Caller(), world.at)
    assert code is ErrorCode.GROUP_ID_NOT_FOUND


def test_share_groups_are_listed_as_such() -> None:
    world = World()
    world.join("m1")
    [listed] = list_groups(world.machine.table, [], ["share"])
    assert (listed.group_type, listed.protocol_type, listed.group_state) == (
        "share", "share", "Stable",
    )  # fmt: skip
    assert list_groups(world.machine.table, [], ["consumer"]) == []


def test_a_group_with_members_is_neither_altered_nor_deleted() -> None:
    world = World()
    world.join("m1")
    table = world.machine.table
    alter = AlterShareGroupOffsetsRequest(group_id="g")
    assert refusal(offsets.alter, table, alter, world.at) is ErrorCode.NON_EMPTY_GROUP
    assert refusal(offsets.begin_delete, table, "g", ["t"]) is ErrorCode.NON_EMPTY_GROUP
    assert refusal(offsets.begin_delete_group, table, "g") is ErrorCode.NON_EMPTY_GROUP


def test_a_member_that_joins_does_not_undo_altered_offsets() -> None:
    world = World()
    request = AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name="t",
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=7)
                    for index in (0, 1)
                ],
            )
        ],
    )
    outcome, wanted = offsets.alter(world.machine.table, request, world.at)
    world.run(outcome)
    assert wanted is not None
    _, asked = world.beat("m", 0, "t")
    assert asked is None, "the altered offsets are being initialized"
    world.initialize(wanted)


def test_altered_offsets_are_initialized_with_the_groups_epoch() -> None:
    world = World()
    world.join("m1")
    world.beat("m1", -1)
    request = AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=7)
                    for index in (1, 2)
                ],
            )
            for name in ("t", "missing")
        ],
    )
    table = world.machine.table
    group = table.share("g")
    assert group is not None
    outcome, wanted = offsets.alter(table, request, world.at)
    reply = world.run(outcome)
    assert wanted == Initialization("g", group.epoch, {TOPIC: {1: 7}})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[p.error_code for p in topic.partitions] for topic in reply.responses] == [
        [0, unknown],
        [unknown, unknown],
    ]


def test_a_group_goes_when_its_states_are_gone() -> None:
    world = World()
    world.join("m1")
    world.beat("m1", -1)
    outcome, wanted = offsets.begin_delete_group(world.machine.table, "g")
    world.run(outcome)
    assert wanted == {TOPIC: frozenset({0, 1})}
    world.run(world.machine.delete_groups(["g"]))
    assert world.machine.table.share("g") is None
    world.reload()
    assert world.machine.table.share("g") is None


def test_deleted_offsets_are_forgotten() -> None:
    world = World()
    world.join("m1")
    world.beat("m1", -1)
    table = world.machine.table
    outcome, wanted, refused = offsets.begin_delete(table, "g", ["t", "missing"])
    world.run(outcome)
    assert wanted == {TOPIC: frozenset({0, 1})}
    assert [topic.topic_name for topic in refused] == ["missing"]
    world.run(offsets.on_deleted(table, "g", [TOPIC]))
    assert offsets.initialized_partitions(table, "g") == {}
    _, missing = world.beat("m1", 0, "t")
    assert missing is not None, "the next member begins again"


def test_a_deleted_topic_leaves_the_group() -> None:
    world = World()
    world.join("m1")
    records = offsets.delete_topics(world.machine.table, {TOPIC})
    world.run(GroupOutcome(records))
    assert offsets.initialized_partitions(world.machine.table, "g") == {}
    assert not offsets.delete_topics(world.machine.table, {TOPIC})


def test_the_loss_of_a_topic_that_was_missed_is_no_reason_to_rebalance_for_ever() -> None:
    world = World()
    answer = world.join("m1")
    del world.image.topics_by_id[TOPIC]
    world.image.topics_by_name.pop("t")
    world.add_topic("t", OTHER, 1)
    _, missing = world.beat("m1", answer.member_epoch, "t")
    world.initialize(missing)
    epochs = []
    for _ in range(4):
        world.now_ms += 1_100
        answer, _ = world.beat("m1", world.epoch_of("m1"), "t")
        epochs.append(answer.member_epoch)
    assert parts(answer) == {OTHER: [0]}
    assert epochs[-1] == epochs[-2] == epochs[-3]


def test_a_topic_that_was_deleted_meanwhile_is_not_initialized() -> None:
    world = World()
    _, missing = world.beat("m1", 0, "t")
    del world.image.topics_by_id[TOPIC]
    world.image.topics_by_name.pop("t")
    world.initialize(missing)
    assert offsets.initialized_partitions(world.machine.table, "g") == {}


@pytest.mark.parametrize("members", range(1, 8))
@pytest.mark.parametrize("partitions", range(1, 6))
def test_the_simple_assignor_is_balanced(members: int, partitions: int) -> None:
    names = [f"m{number}" for number in range(members)]
    own = {TOPIC: range(partitions)}
    previous: dict[str, Any] = {}
    for count in (members, 1, members):
        subscriptions = dict.fromkeys(names[:count], frozenset({TOPIC}))
        targets = assign_simply(subscriptions, own, previous)
        sizes = [len(targets[name].get(TOPIC, ())) for name in subscriptions]
        owners = [sum(p in t.get(TOPIC, ()) for t in targets.values()) for p in range(partitions)]
        assert min(owners) >= 1
        assert max(sizes) - min(sizes) <= 1
        assert max(owners) <= -(-count // partitions) + 1
        previous = targets


def test_the_simple_assignor_moves_nothing_without_need() -> None:
    subscriptions = dict.fromkeys(("m1", "m2"), frozenset({TOPIC}))
    first = assign_simply(subscriptions, {TOPIC: range(4)}, {})
    assert assign_simply(subscriptions, {TOPIC: range(4)}, first) == first


def test_the_simple_assignor_respects_subscriptions() -> None:
    subscriptions = {"m1": frozenset({TOPIC}), "m2": frozenset({TOPIC, OTHER})}
    targets = assign_simply(subscriptions, {TOPIC: range(2), OTHER: range(2)}, {})
    assert set(targets["m1"]) == {TOPIC}
    assert targets["m2"][OTHER] == frozenset({0, 1})
