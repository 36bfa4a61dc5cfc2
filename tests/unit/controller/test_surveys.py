"""Replicas that are asked how far they are before a decision, while the world goes on."""

from __future__ import annotations

from typing import Any

from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.unit.controller.harness import World
from tests.unit.controller.script import ScriptSender

UNCLEAN = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


def reassign(replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    topic = ReassignableTopic(name="t", partitions=[partition])
    return AlterPartitionReassignmentsRequest(topics=[topic])


def begun(world: World, request: Any) -> list[Any]:
    box: list[Any] = []
    world.start(request).attach(box.append)
    return box


def test_a_leader_that_dies_while_its_old_replicas_are_asked_is_replaced() -> None:
    sender = ScriptSender()
    world = World(sender=sender)
    world.join(1, 2, 4)
    world.create("t", [[1, 2]], configs=UNCLEAN)
    topic = world.image.topics_by_name["t"]
    world.ask(reassign([4]))
    topic.isr[0], topic.leader[0] = (4,), 4
    box = begun(world, reassign(None))
    world.settle()
    assert not box, "1 and 2 do not answer"
    world.ports.network.refusing.add(Endpoint("h", 9004))
    world.controller.on_connection_closed(504)
    world.settle()
    assert topic.leader[0] == -1
    world.advance(1600)
    assert box[0].responses[0].partitions[0].error_code == ErrorCode.NONE
    sender.positions = {1: (0, 5), 2: (0, 6)}
    world.advance(1000)
    assert (topic.leader[0], topic.isr[0], topic.replicas[0]) == (2, (2,), (1, 2))


def test_an_unclean_election_on_request_is_counted_once() -> None:
    world = World()
    world.join(1, 2)
    world.create("t", [[1, 2]], configs={"min.insync.replicas": "1"})
    topic = world.image.topics_by_name["t"]
    topic.isr[0] = (1,)
    world.kill(1)
    assert topic.leader[0] == -1
    asked = [TopicPartitions(topic="t", partitions=[0])]
    world.ask(ElectLeadersRequest(election_type=1, topic_partitions=asked))
    assert topic.leader[0] == 2 and world.controller.cluster.unclean_elections == 1


def test_who_waits_for_a_survey_hears_that_the_controller_resigned() -> None:
    world = World(sender=ScriptSender())
    world.join(1, 2)
    world.create("t", [[1, 2]], configs={"min.insync.replicas": "1"})
    topic = world.image.topics_by_name["t"]
    topic.leader[0] = -1
    topic.isr[0] = ()
    asked = [TopicPartitions(topic="t", partitions=[0])]
    box = begun(world, ElectLeadersRequest(election_type=1, topic_partitions=asked))
    assert not box, "1 and 2 do not answer"
    world.controller.on_leader_change(2, 9)
    assert box[0].error_code == ErrorCode.NOT_CONTROLLER
