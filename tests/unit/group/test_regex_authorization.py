"""A regular expression matches only topics that its member may describe (Kafka's TopicRegexResolver)."""

from __future__ import annotations

from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.types import Uuid
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from tests.unit.group.world import World

LITERAL, ALLOW = 3, 3


def allow(world: World, topic: str) -> None:
    world.image.replay(
        AccessControlEntryRecord(
            id=Uuid(topic.encode().ljust(16)[:16]),
            resource_type=int(AclResourceType.TOPIC),
            resource_name=topic,
            pattern_type=LITERAL,
            principal="User:ANONYMOUS",
            host="*",
            operation=int(Operation.DESCRIBE),
            permission_type=ALLOW,
        )
    )


def joining(member: str = "m") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex="orders.*",
        topic_partitions=[],
    )


def test_an_expression_matches_only_topics_that_may_be_described() -> None:
    world = World(group_consumer_assignment_interval_ms="0")
    visible = world.topic("orders-eu", 2)
    world.topic("orders-us", 2)
    world.tell()
    world.authorizer = Authorizer(world.image)
    allow(world, "orders-eu")
    answer = world.ask(joining())
    assert [part.topic_id for part in answer.assignment.topic_partitions] == [visible]


def test_a_topic_that_may_be_described_later_is_found_with_the_next_look() -> None:
    world = World(group_consumer_assignment_interval_ms="0")
    world.topic("orders-eu", 2)
    world.tell()
    world.authorizer = Authorizer(world.image)
    allow(world, "other")
    answer = world.ask(joining())
    assert not answer.assignment.topic_partitions
    allow(world, "orders-eu")
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    interval_ms = world.config.groups.consumer_regex_refresh_interval_ms
    for _ in range(interval_ms // 40_000 + 1):
        world.advance(40_000)
        answer = world.ask(beat)
        beat.member_epoch = answer.member_epoch
    assert len(answer.assignment.topic_partitions) == 1
