"""Assignments whose records are larger than a batch of the offsets topic may be."""

from __future__ import annotations

from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from tests.unit.group.world import World

PARTITIONS = 100_000


def test_one_member_gets_a_hundred_thousand_partitions() -> None:
    world = World()
    world.topic("t", PARTITIONS)
    world.tell()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = world.ask(request)
    assert answer.error_code == ErrorCode.NONE, answer
    [part] = answer.assignment.topic_partitions
    assert len(part.partitions) == PARTITIONS
    world.resign()
    world.elect()  # what was written is read back
    group = world.groups.shards[0].machine.table.groups.get("g")
    assert isinstance(group, ConsumerGroup)
    assert len(group.owners) == PARTITIONS
    assert all(len(batch) <= world.logs[0].batch_bytes_max for batch in world.logs[0].batches)
