"""A streams group gives each task to one member, and says why it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.group.outcome import Caller
from barnabas.group.queries import GroupTally, list_groups
from barnabas.group.streams.configured_topology import Status
from barnabas.group.streams.describing import describe_streams_group
from barnabas.group.streams.member import StreamsMemberState
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import streams_group_heartbeat_request as asked
from barnabas.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.request import Parked
from tests.unit.group.streams_world import StreamsWorld, part, topology


def statuses(reply: Any) -> list[Status]:
    return [Status(status.status_code) for status in reply.status]


def refusal(call: Any, *arguments: Any, **named: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **named)
    return ErrorCode(caught.value.code)


def world_of(partitions: int = 4, **properties: str) -> StreamsWorld:
    world = StreamsWorld(**properties)
    world.add_topic("t", partitions)
    return world


def test_the_first_member_gets_all_tasks() -> None:
    world = world_of()
    reply = world.join("A")
    assert world.active("A") == ["0_0", "0_1", "0_2", "0_3"]
    assert reply.member_epoch == 2, "a group begins at epoch 1, as in Apache Kafka"
    assert statuses(reply) == []
    assert world.group.state.value == "Stable"


def test_a_second_member_gets_tasks_once_the_first_gave_them_up() -> None:
    world = world_of()
    world.join("A")
    world.now_ms += 2_000
    world.join("B")
    assert world.active("B") == []
    assert world.group.member("B").state.name == "UNRELEASED_TASKS"
    world.beat("A")
    assert world.active("A") == ["0_0", "0_1"]
    assert world.beat("B", says=False).active_tasks is None
    world.beat("A")
    world.beat("B")
    assert world.active("B") == ["0_2", "0_3"]
    assert world.group.state.value == "Stable"


def test_a_member_that_keeps_its_tasks_too_long_is_removed() -> None:
    world = world_of()
    world.join("A")
    world.now_ms += 2_000
    world.join("B")
    world.beat("A")
    for _ in range(12):
        world.wait(5_500)
        if "A" in world.group.members:
            world.beat("A", active_tasks=world_tasks("0_0", "0_1", "0_2", "0_3"))
        world.beat("B", says=False)
    assert "A" not in world.group.members
    world.settle("B")
    assert world.active("B") == ["0_0", "0_1", "0_2", "0_3"]


def world_tasks(*names: str) -> list[asked.TaskIds]:
    return [asked.TaskIds(subtopology_id="0", partitions=[int(name[2:]) for name in names])]


def test_internal_topics_are_named_with_the_partitions_of_their_subtopology() -> None:
    world = world_of(3)
    world.topology = topology(
        part("0", sinks=["r"]), part("1", sources=[], repartition={"r": 0}, changelogs=["c"])
    )
    reply = world.join("A")
    assert statuses(reply) == [Status.MISSING_INTERNAL_TOPICS]
    assert reply.status[0].status_detail == "Internal topics are missing: c, r"
    assert {name: topic.partitions for name, topic in world.missing.items()} == {"c": 3, "r": 3}
    assert world.group.state.value == "NotReady"
    assert world.active("A") == []
    world.create_missing()
    world.settle("A")
    assert world.active("A") == ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2"]
    assert world.missing == {}


def test_a_missing_source_topic_is_said_and_waited_for() -> None:
    world = StreamsWorld()
    reply = world.join("A")
    assert statuses(reply) == [Status.MISSING_SOURCE_TOPICS]
    assert reply.status[0].status_detail == "Source topics t are missing."
    world.add_topic("t", 2)
    world.settle("A")
    assert world.active("A") == ["0_0", "0_1"]
    world.remove_topic("t")
    world.now_ms += 2_000
    assert statuses(world.beat("A")) == [Status.MISSING_SOURCE_TOPICS]
    world.settle("A")
    assert world.active("A") == [], "no task is left where a source topic is missing"


def test_copartitioned_sources_need_equally_many_partitions() -> None:
    world = world_of(2)
    world.add_topic("u", 3)
    world.topology = topology(part(sources=["t", "u"], copartitioned=([0, 1], [])))
    reply = world.join("A")
    assert statuses(reply) == [Status.INCORRECTLY_PARTITIONED_TOPICS]
    assert reply.status[0].status_detail == (
        "Following topics do not have the same number of partitions: [{t=2, u=3}]"
    )


def test_a_repartition_topic_follows_its_copartition_group() -> None:
    world = world_of(5)
    world.add_topic("s", 2)
    world.topology = topology(
        part("0", sources=["s"], sinks=["r"]),
        part("1", sources=["t"], repartition={"r": 0}, copartitioned=([0], [0])),
    )
    world.join("A")
    assert world.missing["r"].partitions == 5
    world.topology = topology(
        part("0", sources=["s"], sinks=["r"]),
        part("1", sources=["t"], repartition={"r": 3}, copartitioned=([0], [0])),
    )
    other = world_of(5)
    other.add_topic("s", 2)
    other.topology = world.topology
    assert statuses(other.join("A")) == [Status.INCORRECTLY_PARTITIONED_TOPICS]


def test_an_internal_topic_with_another_number_of_partitions_is_refused() -> None:
    world = world_of(2)
    world.add_topic("c", 3)
    world.topology = topology(part(changelogs=["c"]))
    reply = world.join("A")
    assert statuses(reply) == [Status.INCORRECTLY_PARTITIONED_TOPICS]
    assert "expected 2, found 3" in reply.status[0].status_detail


@pytest.mark.parametrize(
    "wrong",
    [
        topology(part("0", sources=["t"], sinks=[], repartition={"r": 0})),
        topology(part("0", sources=[], sinks=["a"], repartition={"a": 0})),
        topology(part("0", copartitioned=([7], []))),
        topology(part("0"), part("0")),
        topology(part("0", sources=["t"], repartition={"bad/name": 1})),
        topology(part("0", sources=[])),
        topology(epoch=-1),
    ],
)
def test_a_topology_that_no_topics_fit_is_refused(wrong: asked.Topology) -> None:
    world = world_of()
    assert refusal(world.join, "A", topology=wrong) is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_stale_topology_joins_and_its_member_learns_of_it() -> None:
    world = world_of()
    world.topology = topology(epoch=2)
    world.join("A")
    assert statuses(world.join("B", topology=topology(epoch=1))) == [
        Status.STALE_TOPOLOGY,
        Status.ASSIGNMENT_DELAYED,
    ]
    assert refusal(world.join, "C", topology=topology(epoch=3)) is ErrorCode.INVALID_REQUEST
    changed = topology(part(sources=["t", "u"]), epoch=2)
    assert refusal(world.join, "C", topology=changed) is ErrorCode.INVALID_REQUEST


def test_a_new_group_waits_for_more_members() -> None:
    world = world_of(group_streams_initial_rebalance_delay_ms="3000")
    reply = world.join("A")
    assert reply.member_epoch == 1
    assert statuses(reply) == [Status.ASSIGNMENT_DELAYED]
    assert reply.heartbeat_interval_ms == 3_050
    world.wait(1_000)
    assert statuses(world.join("B")) == [Status.ASSIGNMENT_DELAYED]
    world.wait(2_050)
    world.beat("A")
    world.beat("B")
    assert (world.active("A"), world.active("B")) == (["0_0", "0_2"], ["0_1", "0_3"])


def test_assignments_keep_a_distance_in_time() -> None:
    world = world_of()
    world.join("A")
    reply = world.join("B")
    assert statuses(reply) == [Status.ASSIGNMENT_DELAYED]
    assert reply.heartbeat_interval_ms == 1_050
    assert reply.member_epoch == 2 and world.active("B") == []


def test_standby_tasks_are_at_another_process() -> None:
    world = world_of(2)
    world.add_topic("c", 2)
    world.group_config("streams.num.standby.replicas", "1")
    world.topology = topology(part(changelogs=["c"]))
    world.join("A")
    world.join("B")
    world.settle()
    assert sorted(world.active("A") + world.active("B")) == ["0_0", "0_1"]
    assert world.standby("A") == world.active("B")
    assert world.standby("B") == world.active("A")
    world.leave("A")
    del world.epochs["A"]
    world.settle("B")
    assert world.active("B") == ["0_0", "0_1"], "the standby task became active"
    assert world.standby("B") == []


def test_a_changed_setting_assigns_again() -> None:
    world = world_of(2)
    world.add_topic("c", 2)
    world.topology = topology(part(changelogs=["c"]))
    world.join("A")
    world.join("B")
    world.settle()
    epoch = world.group.epoch
    world.group_config("streams.num.standby.replicas", "1")
    world.settle()
    assert world.group.epoch == epoch + 1
    assert world.standby("A") == world.active("B")


def test_a_static_member_keeps_its_tasks_while_it_is_away() -> None:
    world = world_of()
    world.join("A", instance_id="i")
    world.leave("A", -2, instance_id="i")
    assert world.group.member("A").epoch == -2
    assert set(world.group.member("A").assigned.active.values()) == {0}
    epoch = world.group.epoch
    reply = world.join("A2", instance_id="i", process_id="p-A")
    assert world.group.epoch == epoch, "it returned as it was"
    assert reply.member_epoch == epoch
    assert world.active("A2") == ["0_0", "0_1", "0_2", "0_3"]
    assert refusal(world.beat, "A", instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(world.join, "A3", instance_id="i") is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_member_asks_the_whole_application_to_shut_down() -> None:
    world = world_of()
    world.join("A")
    world.join("B")
    world.leave("B", shutdown_application=True)
    reply = world.beat("A")
    assert Status.SHUTDOWN_APPLICATION in statuses(reply)
    assert "member B encountered" in reply.status[-1].status_detail
    world.leave("A")
    assert statuses(world.join("C")) == [], "the next run of the application is not shut down"


def test_members_learn_at_which_endpoints_partitions_are() -> None:
    world = world_of(2)
    world.add_topic("c", 2)
    world.group_config("streams.num.standby.replicas", "1")
    world.topology = topology(part(changelogs=["c"]))
    endpoint = asked.Endpoint(host="a.example", port=8080)
    world.join("A", user_endpoint=endpoint)
    world.join("B")
    world.settle()
    reply = world.beat("B", endpoint_information_epoch=0)
    (known,) = reply.partitions_by_user_endpoint
    assert (known.user_endpoint.host, known.user_endpoint.port) == ("a.example", 8080)
    active = [f"0_{index}" for index in known.active_partitions[0].partitions]
    assert active == world.active("A")
    assert known.standby_partitions[0].topic == "t"
    again = world.beat("B", endpoint_information_epoch=reply.endpoint_information_epoch)
    assert again.partitions_by_user_endpoint is None


def test_a_client_tag_is_not_given_twice() -> None:
    world = StreamsWorld()
    world.add_topic("t", 1)
    tags = [asked.KeyValue(key="zone", value=value) for value in ("z1", "z2")]
    with pytest.raises(KafkaError, match="ClientTags must not have a key twice") as caught:
        world.join("A", client_tags=tags)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_required_client_tags_are_asked_for_from_version_1_on() -> None:
    world = world_of()
    world.group_config("streams.rack.aware.assignment.tags", "zone,cluster")
    tags = [asked.KeyValue(key="zone", value="z1")]
    reply = world.join("A", client_tags=tags)
    assert statuses(reply) == [Status.MISSING_CLIENT_TAGS]
    assert "[cluster]" in reply.status[0].status_detail
    request = asked.StreamsGroupHeartbeatRequest(group_id="g", member_id="A", member_epoch=2)
    assert statuses(world.send(request, version=0)) == []


def test_epochs_fence_members() -> None:
    world = world_of()
    world.join("A")
    assert refusal(world.beat, "A", member_epoch=3) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(world.beat, "A", says=False, member_epoch=1) is ErrorCode.FENCED_MEMBER_EPOCH
    unknown = asked.StreamsGroupHeartbeatRequest(group_id="g", member_id="B", member_epoch=1)
    assert refusal(world.send, unknown) is ErrorCode.UNKNOWN_MEMBER_ID
    wrong = world_tasks("0_9")
    assert refusal(world.beat, "A", active_tasks=wrong) is ErrorCode.INVALID_REQUEST


def test_a_lost_answer_is_repeated_with_the_epoch_before() -> None:
    world = world_of()
    world.join("A")
    world.now_ms += 2_000
    world.join("B")
    before = world.epochs["A"]
    world.beat("A")
    world.beat("A")
    reply = world.beat("A", member_epoch=before)
    assert reply.member_epoch == before + 1


def test_a_refused_heartbeat_changes_nothing() -> None:
    world = world_of()
    world.join("A", lost=True)
    assert world.machine.table.groups.get("g") is None
    world.join("A")
    world.now_ms += 2_000
    world.join("B", lost=True)
    assert "B" not in world.group.members
    world.add_topic("t", 6)
    world.beat("A", lost=True)
    world.settle("A")
    assert len(world.active("A")) == 6, "the topics are looked at again"


def test_another_coordinator_continues() -> None:
    world = world_of()
    world.join("A")
    world.now_ms += 2_000
    world.join("B")
    world.beat("A")
    before = world.group.describe()
    world.reload()
    assert world.group.describe() == before
    assert world.group.epochs.validated_topology == 0
    world.settle()
    assert len(world.active("A")) == len(world.active("B")) == 2
    world.wait(50_000)
    assert world.group.is_empty, "sessions end at the new coordinator, too"


def commit(world: StreamsWorld, offset: int, member_id: str = "", epoch: int = -1) -> None:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
    )  # fmt: skip
    caller = Caller("c", "/127.0.0.1", 9)
    reply = world.run(world.machine.commit_offsets(request, caller, world.at))
    assert not reply.topics[0].partitions[0].error_code


def committed(world: StreamsWorld) -> tuple[str, int]:
    """The group's type, and the offset that it has committed."""
    [listed] = list_groups(world.machine.table)
    known = world.machine.offsets.get("g", ("t", 0))
    assert known is not None
    return listed.group_type, known.offset


def classic_join(world: StreamsWorld) -> list[Any]:
    """A member of the classic protocol joins; the answers that it gets at once."""
    parked = Parked()
    replies: list[Any] = []
    parked.attach(replies.append)
    join = JoinGroupRequest(
        group_id="g", member_id="", protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
    )  # fmt: skip
    outcome = world.machine.join_group(join, Caller("c", "/127.0.0.1", 3), parked, world.at)
    world.run(outcome)
    for waiting, reply in outcome.replies:
        waiting.complete(reply)
    return replies


def test_an_application_changes_its_protocol_both_ways_and_keeps_its_offsets() -> None:
    world = world_of()
    commit(world, 1)
    for offset in (2, 3):
        assert committed(world)[0] == "classic"
        world.join("A")
        commit(world, offset, "A", world.epochs["A"])
        assert committed(world) == ("streams", offset)
        [refused] = classic_join(world)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "it has members"
        world.leave("A")
        world.reload()
        assert committed(world) == ("streams", offset)
        classic_join(world)
        assert committed(world) == ("classic", offset)
        assert refusal(world.join, "A") is ErrorCode.GROUP_ID_NOT_FOUND, "it has members"
        world.wait(60_000)
        world.reload()
        assert committed(world) == ("classic", offset)


def test_an_empty_group_is_deleted_and_one_with_members_is_not() -> None:
    world = world_of()
    world.join("A")
    world.leave("A")
    listed = list_groups(world.machine.table)
    assert [(g.group_type, g.protocol_type, g.group_state) for g in listed] == [
        ("streams", "streams", "Empty")
    ]
    world.run(world.machine.delete_groups(["g"]))
    assert world.machine.table.groups.get("g") is None
    world.join("A")
    refused = world.machine.delete_groups(["g"])
    assert world.run(refused).results[0].error_code == ErrorCode.NON_EMPTY_GROUP


def test_groups_are_listed_and_counted_by_state() -> None:
    world = StreamsWorld()
    world.join("A")
    table = world.machine.table
    for state in ("NotReady", "not_ready"):
        assert [g.group_id for g in list_groups(table, [state], ["streams"])] == ["g"]
    assert list_groups(table, ["Stable"]) == []
    tally = GroupTally()
    tally.add(table, 0)
    assert {state.value: count for state, count in tally.streams.items() if count} == {
        "NotReady": 1
    }


def test_a_group_is_described_with_its_tasks() -> None:
    world = world_of(2)
    world.add_topic("c", 2)
    world.topology = topology(part(changelogs=["c"]))
    offsets = [asked.TaskOffset(subtopology_id="0", partition=1, offset=17)]
    world.join("A", task_offsets=offsets)
    world.beat("A")
    group = describe_streams_group(world.machine.table, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.topology is not None and group.topology.subtopologies is not None
    (described,) = group.topology.subtopologies
    assert [t.partitions for t in described.state_changelog_topics] == [2]
    (member,) = group.members
    assert member.assignment.active_tasks == member.target_assignment.active_tasks
    assert [(o.partition, o.offset) for o in member.task_offsets] == [(1, 17)]
    unknown = describe_streams_group(world.machine.table, "h")
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_full_group_takes_no_one_more() -> None:
    world = world_of(group_streams_max_size="1")
    world.join("A")
    assert refusal(world.join, "B") is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.join("A")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 1, "active_tasks": []}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 1, "topology": topology()}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 1, "rack_id": " "}, ErrorCode.INVALID_REQUEST),
        (
            {"rebalance_timeout_ms": 1, "topology": topology(part(changelogs=["c"]))},
            ErrorCode.GROUP_ID_NOT_FOUND,
        ),
    ],
)
def test_requests_that_contradict_themselves_are_refused(
    fields: dict[str, Any], code: ErrorCode
) -> None:
    world = world_of()
    if code is ErrorCode.GROUP_ID_NOT_FOUND:  # a changelog with a partition count of its own
        fields["topology"].subtopologies[0].state_changelog_topics[0].partitions = 2
        code = ErrorCode.STREAMS_INVALID_TOPOLOGY
    request = asked.StreamsGroupHeartbeatRequest(group_id="g", member_id="A", **fields)
    assert refusal(world.send, request) is code


def test_an_answer_that_was_lost_is_given_again() -> None:
    world = world_of()
    world.join("A")
    world.now_ms += 2_000
    world.join("B")
    epoch, tasks = world.epochs["A"], world.roles["A"]
    world.beat("A")  # it shall give up two tasks; the answer is lost
    world.roles["A"] = tasks
    world.beat("A", member_epoch=epoch)
    assert world.active("A") == ["0_0", "0_1"]
    world.beat("A")
    epoch = world.epochs["B"]
    world.beat("B")  # it has two tasks now; the answer is lost
    world.roles["B"] = ([], [], [])
    assert len(world.beat("B", member_epoch=epoch).active_tasks) == 1
    assert world.active("B") == ["0_2", "0_3"]
    assert world.beat("B").active_tasks is None


def test_fixed_repartition_topics_of_two_copartition_groups_may_differ() -> None:
    world = world_of(2)
    world.topology = topology(
        part("0", sinks=["r", "s"]),
        part("1", sources=[], repartition={"r": 3}, copartitioned=([], [0])),
        part("2", sources=[], repartition={"s": 5}, copartitioned=([], [0])),
    )
    assert statuses(world.join("A")) == [Status.MISSING_INTERNAL_TOPICS]
    assert {name: topic.partitions for name, topic in world.missing.items()} == {"r": 3, "s": 5}


def test_states_of_members_have_the_numbers_of_apache_kafka() -> None:
    assert [(state.name, state.value) for state in StreamsMemberState] == [
        ("STABLE", 1),
        ("UNREVOKED_TASKS", 2),
        ("UNRELEASED_TASKS", 3),
        ("UNKNOWN", 127),
    ]
