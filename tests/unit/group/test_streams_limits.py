"""A member of a streams group makes its coordinator neither work nor remember without bound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.group.cluster_topics import ClusterTopics
from barnabas.group.streams import heartbeat
from barnabas.group.streams.configured_topology import Status, configure
from barnabas.group.streams.topology import StreamsTopology, Subtopology, TopicInfo
from barnabas.limits import STREAMS_SUBTOPOLOGIES_MAX, STREAMS_TASKS_MAX
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import streams_group_heartbeat_request as asked
from tests.unit.group.streams_world import StreamsWorld, part, topology


class CountedSinks(tuple[str, ...]):
    """The names of repartition sinks; it counts how often they are read."""

    __slots__ = ()
    reads = 0

    def __iter__(self) -> Iterator[str]:
        CountedSinks.reads += 1
        return super().__iter__()


def chain(length: int) -> StreamsTopology:
    """Each subtopology reads what the next one writes, so that the last one has to be first."""

    def link(index: int) -> Subtopology:
        last = index == length - 1
        return Subtopology(
            f"{index:06}",
            ("t",) if last else (),
            (),
            (),
            CountedSinks([f"r{index}"]) if index else CountedSinks(),
            () if last else (TopicInfo(f"r{index + 1}", 0, 0, ()),),
            (),
        )

    return StreamsTopology(0, tuple(link(index) for index in range(length)))


def test_partition_counts_of_a_chain_of_subtopologies_take_linear_work() -> None:
    world = StreamsWorld()
    world.add_topic("t", 3)
    CountedSinks.reads = 0
    configured = configure(chain(300), world.machine.table.cluster)
    assert {topic.partitions for topic in configured.missing.values()} == {3}
    assert len(configured.missing) == 299
    assert CountedSinks.reads <= 5 * 300


def test_a_topology_with_too_many_subtopologies_is_refused() -> None:
    world = StreamsWorld()
    world.add_topic("t", 1)
    parts = [part(f"{index:06}") for index in range(STREAMS_SUBTOPOLOGIES_MAX + 1)]
    with pytest.raises(KafkaError) as caught:
        world.join("A", topology=topology(*parts))
    assert caught.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert str(STREAMS_SUBTOPOLOGIES_MAX) in str(caught.value)
    assert world.log == []


def test_a_topology_with_too_many_tasks_gets_none_and_is_judged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = StreamsWorld()
    world.add_topic("t", 1)
    share = STREAMS_TASKS_MAX // 10
    names = [f"r{index:02}" for index in range(10)]
    readers = [part(name, sources=[], repartition={name: share}) for name in names]
    world.topology = topology(part("0", sinks=names), *readers)
    reply = world.join("A")
    assert [status.status_code for status in reply.status] == [
        Status.INCORRECTLY_PARTITIONED_TOPICS
    ]
    assert reply.status[0].status_detail == (
        f"The topology has {STREAMS_TASKS_MAX + 1} tasks, but a streams group may have"
        f" {STREAMS_TASKS_MAX} at most."
    )
    assert world.missing == {}, "its internal topics are not created either"

    def again(asked_for: StreamsTopology, cluster: ClusterTopics) -> None:
        pytest.fail("the same topics need no second look")

    monkeypatch.setattr(heartbeat, "configure", again)
    world.settle("A", rounds=2)
    assert world.active("A") == []


def test_the_highest_number_of_tasks_is_allowed() -> None:
    world = StreamsWorld()
    world.add_topic("t", 1)
    reader = part("1", sources=[], repartition={"r": STREAMS_TASKS_MAX - 1})
    reply = world.join("A", topology=topology(part("0", sinks=["r"]), reader))
    assert [status.status_code for status in reply.status] == [Status.MISSING_INTERNAL_TOPICS]


def offsets(*tasks: tuple[str, int]) -> list[asked.TaskOffset]:
    return [
        asked.TaskOffset(subtopology_id=part_id, partition=index, offset=7)
        for part_id, index in tasks
    ]


def world_of_two() -> StreamsWorld:
    world = StreamsWorld()
    world.add_topic("t", 2)
    return world


def test_offsets_of_tasks_that_do_not_exist_are_not_remembered() -> None:
    world = world_of_two()
    reported = offsets(("0", 1), ("0", -1), ("0", 2), ("1", 0), ("x" * 1000, 5))
    world.join("A", task_offsets=reported, task_end_offsets=reported)
    for known in (world.group.task_offsets, world.group.task_end_offsets):
        assert known == {"A": {("0", 1): 7}}
    world.beat("A", task_offsets=offsets(("9", 9)), task_end_offsets=reported)
    assert world.group.task_offsets == {"A": {}}
    assert world.group.task_end_offsets == {"A": {("0", 1): 7}}


def test_a_join_that_the_log_refuses_leaves_no_offsets() -> None:
    world = world_of_two()
    world.join("A", task_offsets=offsets(("0", 0)))
    reported = offsets(("0", 1))
    world.join("B", lost=True, task_offsets=reported, task_end_offsets=reported)
    assert "B" not in world.group.members
    assert set(world.group.task_offsets) == {"A"}
    assert world.group.task_end_offsets == {}


def test_offsets_count_for_the_assignment_that_their_heartbeat_computes() -> None:
    world = StreamsWorld()
    world.add_topic("t", 3)
    for member_id in "ABC":
        world.join(member_id)
    world.settle("A", "B", "C")
    left = offsets(("0", int(world.active("A")[0][2:])))
    mine = set(world.active("C"))
    world.leave("A")
    world.now_ms += 2_000
    world.beat("C", task_offsets=left)
    world.settle("B", "C")
    assert set(world.active("C")) > mine, "C has the state of the task that A had"
    assert world.group.task_offsets.keys() == {"C"}


def test_offsets_of_a_member_that_left_are_forgotten() -> None:
    world = world_of_two()
    for member_id in "AB":
        world.join(member_id, task_offsets=offsets(("0", 0)))
    world.leave("A")
    assert world.group.task_offsets.keys() == {"B"}
