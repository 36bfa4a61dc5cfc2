"""A coordinator loads a log from which compaction took the tombstone of a member before this replica
fetched it: the member is there again until its session ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.member import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from tests.unit.group.world import World

SESSION_MS = 45_000


def beat(world: World, member: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    joins = epoch == JOIN_EPOCH
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=["t"] if joins else None,
        topic_partitions=[] if joins else None,
    )
    answer: ConsumerGroupHeartbeatResponse = world.ask(request)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


def group_of(world: World) -> ConsumerGroup:
    group = world.groups.shards[0].machine.table.groups.get("g")
    assert isinstance(group, ConsumerGroup)
    return group


def succeeded() -> World:
    """Member A had everything and left, B has it now; a coordinator was elected on a log without A's
    tombstones."""
    world = World(group_consumer_assignment_interval_ms="0")
    world.topic("t", 2)
    world.tell()
    beat(world, "A", JOIN_EPOCH)
    log = world.logs[0]
    left = len(log.batches)
    beat(world, "A", LEAVE_EPOCH)
    beat(world, "B", JOIN_EPOCH)
    world.resign()
    del log.batches[left], log.starts[left]
    world.elect()
    return world


def test_a_member_whose_tombstone_is_lost_owns_until_its_session_ends() -> None:
    world = succeeded()
    group = group_of(world)
    assert len(group.members) == 2 and len(group.owners.contested()) == 2
    group.validate()
    for _ in range(SESSION_MS // 5_000):
        beat(world, "B", group.member("B").epoch)
        group.validate()
        world.advance(5_000)
    assert [name for name, _ in group.members.items()] == ["B"]
    assert group.owners.contested() == frozenset() and len(group.owners) == 2
    group.validate()


def test_a_partition_owned_twice_is_given_to_no_third_member() -> None:
    world = succeeded()
    answer = beat(world, "C", JOIN_EPOCH)
    assert answer.assignment is not None and not answer.assignment.topic_partitions
    group_of(world).validate()


def test_no_partition_gets_a_second_owner_after_loading() -> None:
    world = World()
    world.topic("t", 2)
    world.tell()
    beat(world, "A", JOIN_EPOCH)
    world.resign()
    world.elect()
    group = group_of(world)
    group.validate()
    group.put_member(replace(group.member("A"), member_id="B"))
    with pytest.raises(AssertionError, match="several own"):
        group.validate()
