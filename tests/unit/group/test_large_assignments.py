"""Assignments of many partitions: computed in steps, owned in words, written in one batch."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.group.consumer import change, large_assignment
from barnabas.group.consumer.assignors import range as range_assignor
from barnabas.group.consumer.assignors import uniform
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.owned_partitions import WORD_BITS, OwnedPartitions
from barnabas.timeline import Journal
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from tests.effort import examples
from tests.unit.group.world import World

pytestmark = pytest.mark.slow

PARTITIONS = 100_000
T = Uuid(bytes(15) + b"\1")
INDEXES = st.sets(st.sampled_from([*range(6), 4094, 4095, 4096, 4097, 9_000, 2**31 - 1]))


def joining(member: str, *topics: str, assignor: str = "uniform") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        rebalance_timeout_ms=60_000,
        server_assignor=assignor,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
    )


def beating(answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=answer.member_id or "", member_epoch=answer.member_epoch
    )


def group_of(world: World) -> ConsumerGroup:
    group = world.groups.shards[0].machine.table.groups.get("g")
    assert isinstance(group, ConsumerGroup)
    return group


def test_one_member_gets_a_hundred_thousand_partitions() -> None:
    world = World()
    world.topic("t", PARTITIONS)
    world.tell()
    answer = world.ask(joining("m", "t"))
    assert answer.error_code == ErrorCode.NONE, answer
    assert not answer.assignment.topic_partitions and answer.heartbeat_interval_ms <= 100
    world.ports.advance(answer.heartbeat_interval_ms)
    answer = world.ask(beating(answer))
    [part] = answer.assignment.topic_partitions
    assert len(part.partitions) == PARTITIONS
    world.resign()
    world.elect()  # what was written is read back
    assert len(group_of(world).owners) == PARTITIONS
    assert all(len(batch) <= world.logs[0].batch_bytes_max for batch in world.logs[0].batches)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("others", [("t",), ("t", "u")])
def test_steps_assign_what_one_turn_would(assignor: str, others: tuple[str, ...]) -> None:
    found = []
    for at_once_max in (1_000_000, 0):
        world = World(group_consumer_assignment_interval_ms="0")
        world.topic("t", 30)
        world.topic("u", 20)
        world.tell()
        with (
            patch.object(change, "ASSIGNED_AT_ONCE_MAX", at_once_max),
            patch.object(large_assignment, "ASSIGNED_AT_ONCE_MAX", at_once_max),
            patch.object(uniform, "WORK_PER_STEP", 7),
            patch.object(range_assignor, "WORK_PER_STEP", 7),
        ):
            for member in "abc":
                topics = ("t",) if member == "a" else others
                assert not world.ask(joining(member, *topics, assignor=assignor)).error_code
                world.ports.advance(200)
        group = group_of(world)
        assert group.assignment_epoch == group.epoch and group.assigning is None
        found.append(dict(group.targets.items()))
    assert found[0] == found[1]


def test_an_assignment_ends_though_members_come_with_every_step() -> None:
    world = World(group_consumer_assignment_interval_ms="0")
    world.topic("t", 30)
    world.tell()
    with (
        patch.object(change, "ASSIGNED_AT_ONCE_MAX", 0),
        patch.object(large_assignment, "ASSIGNED_AT_ONCE_MAX", 0),
        patch.object(uniform, "WORK_PER_STEP", 1),
    ):
        for number in range(8):
            world.ask(joining(f"m{number}", "t"))
            world.ports.advance(1)
        assert group_of(world).assignment_epoch > 1


@settings(max_examples=examples(100), deadline=None)
@given(sets=st.lists(st.tuples(INDEXES, INDEXES), min_size=1, max_size=4))
def test_owned_partitions_are_the_union_of_what_members_have(
    sets: list[tuple[set[int], set[int]]],
) -> None:
    owned = OwnedPartitions(Journal())
    before: list[set[int]] = [set() for _ in sets]
    for turn in range(2):
        for number, pair in enumerate(sets):
            owned.change([assigned(before[number])], [assigned(pair[turn])])
            before[number] = pair[turn]
            every = set().union(*before)
            assert {index for _, index in owned} == every and len(owned) == len(every)
            assert owned.among(T, range(WORD_BITS * 3)) == every - {2**31 - 1}
    several = [index for index in set().union(*before) if sum(index in one for one in before) > 1]
    assert owned.has_contested == bool(several)


def assigned(partitions: set[int]) -> dict[Uuid, dict[int, int]]:
    return {T: dict.fromkeys(partitions, 1)} if partitions else {}
