"""Replicas that are asked how far they are before a decision, while the world continues."""

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


def test_an_answer_with_an_epoch_without_leader_counts_by_its_offset_alone() -> None:
    """Apache Kafka's brokers tell the partition's epoch, whatever their log has."""
    sender = ScriptSender()
    world = leaderless(sender, UNCLEAN)
    topic = world.image.topics_by_name["t"]
    assert topic.leader[0] == -1
    sender.positions = {1: (topic.leader_epoch[0], 3), 2: (0, 100)}
    world.advance(1600)
    world.advance(1000)
    assert topic.leader[0] == 2


def test_a_replica_behind_the_leader_epoch_is_asked_again() -> None:
    """Its replica may have been taken away and given back since: it would be an empty one."""
    sender = ScriptSender()
    sender.positions, sender.epochs = {1: (0, 3), 2: (0, 100)}, {2: 0}
    world = leaderless(sender, UNCLEAN)
    world.advance(1000)
    assert world.partition("t").leader == -1, "2 is behind, and may have more"
    sender.positions[2], sender.epochs = (-1, 0), {}
    world.advance(100)
    assert world.partition("t").leader == 1


def test_a_replica_that_is_behind_to_the_deadline_does_not_count() -> None:
    sender = ScriptSender()
    sender.positions, sender.epochs = {1: (0, 3), 2: (0, 100)}, {2: 0}
    world = leaderless(sender, UNCLEAN)
    world.advance(1600)
    assert world.partition("t").leader == 1


def elect_uncleanly(*indexes: int) -> ElectLeadersRequest:
    asked = [TopicPartitions(topic="t", partitions=list(indexes))]
    return ElectLeadersRequest(election_type=1, topic_partitions=asked)


def leaderless(sender: ScriptSender, configs: dict[str, str]) -> World:
    """1 and 2 live and lead nothing, for 3 was the last one in sync."""
    world = World({"broker.session.timeout.ms": "1000000"}, sender=sender)
    world.join(1, 2, 3)
    world.create("t", [[1, 2, 3]], configs=configs)
    for broker in (1, 2):
        world.kill(broker)
    for broker in (1, 2):
        world.revive(broker)
    world.kill(3)
    assert world.partition("t").leader == -1
    return world


def test_an_election_on_request_takes_the_answers_that_are_awaited_already() -> None:
    sender = ScriptSender()
    sender.positions = {2: (5, 500)}
    world = leaderless(sender, UNCLEAN)
    box = begun(world, elect_uncleanly(0))
    world.settle()
    assert not box, "1 is slow to answer"
    world.advance(1600)
    assert box and world.partition("t").leader == 2


def test_a_caller_that_joins_a_recovery_without_result_lets_it_start_again() -> None:
    sender = ScriptSender()
    sender.positions = {2: (5, 500)}
    world = leaderless(sender, UNCLEAN)
    key = next(iter(world.controller.recovery._inquiries))
    told: list[Any] = []
    world.controller.recovery.survey([key], told.append)
    world.controller.recovery.survey([key], told.append)
    world.advance(1600)
    assert [set(found) for found in told] == [{key}, {key}]
    world.advance(3000)
    assert world.partition("t").leader == 2


def test_a_partition_that_is_named_twice_is_asked_for_once_and_answered() -> None:
    sender = ScriptSender()
    world = leaderless(sender, {"min.insync.replicas": "1"})
    sender.positions = {1: (5, 100), 2: (5, 500)}
    box = begun(world, elect_uncleanly(0, 0))
    world.settle()
    assert box and world.partition("t").leader == 2


def test_a_survey_ends_where_no_replica_of_a_partition_can_be_asked() -> None:
    sender = ScriptSender()
    world = leaderless(sender, {"min.insync.replicas": "1"})
    world.create("u", [[1]])
    world.kill(1)
    sender.positions = {2: (5, 500)}
    keys = [world.image.topics_by_name[name].slot << 32 for name in ("t", "u")]
    told: list[Any] = []
    world.controller.recovery.survey(keys, told.append)
    assert [set(found) for found in told] == [{keys[0]}]


def test_a_caller_that_waits_for_a_survey_learns_of_the_resignation() -> None:
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


class LateSender(ScriptSender):
    """Who has no position yet answers when `answer` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[tuple[Endpoint, Any, Any]] = []

    def send(self, target: Endpoint, request: Any, on_done: Any, **_: Any) -> None:
        if target.port - 9000 in self.positions:
            super().send(target, request, on_done)
        else:
            self.late.append((target, request, on_done))

    def answer(self) -> None:
        late, self.late = self.late, []
        for each in late:
            self.send(*each)


def test_a_balanced_recovery_waits_for_the_longest_log_that_died_since() -> None:
    """Another one would be elected without what was committed (seed 161)."""
    sender = LateSender()
    world = leaderless(
        sender, {"min.insync.replicas": "1", "unclean.recovery.strategy": "balanced"}
    )
    world.revive(3)  # after an unclean shutdown: no replica is eligible
    sender.positions = {1: (0, 31), 3: (0, 40)}
    sender.late.clear()
    while not sender.late:  # until all three are asked again, and 2 is awaited
        world.advance(100)
    assert world.controller.recovery._inquiries[0].answers.keys() == {1, 3}
    world.kill(3)
    sender.positions[2] = (0, 30)
    sender.answer()
    world.settle()
    assert world.partition("t").leader == -1, "3 may come back"
    world.revive(3, incarnation=8000)
    world.advance(4000)
    assert world.partition("t").leader == 3


BALANCED = {"min.insync.replicas": "1", "unclean.recovery.strategy": "balanced"}


def test_each_balanced_recovery_waits_its_own_time() -> None:
    """One that ended by an election on request says nothing of how long the next one has waited."""
    sender = ScriptSender()
    world = leaderless(sender, BALANCED)
    world.revive(3)  # after an unclean shutdown: no replica is eligible
    sender.positions = {1: (0, 31), 3: (0, 20)}
    world.advance(4000)
    assert world.partition("t").leader == -1, "2 does not answer"
    sender.positions[2] = (0, 25)
    box = begun(world, elect_uncleanly(0))
    world.settle()
    assert box and world.partition("t").leader == 1
    world.advance(40_000)
    sender.positions = {1: (1, 25), 3: (1, 20)}
    world.image.topics_by_name["t"].isr[0] = (1,)
    world.kill(1)
    world.revive(1, incarnation=9000)
    world.advance(10_000)
    assert world.partition("t").leader == -1, "2 is waited for"
    world.advance(25_000)
    assert world.partition("t").leader == 1


def test_a_recovery_asks_replicas_again_that_a_survey_has_asked_meanwhile() -> None:
    sender = ScriptSender()
    world = leaderless(sender, UNCLEAN)
    world.advance(1600)
    recovery = world.controller.recovery
    key = next(iter(recovery._retry))
    told: list[Any] = []
    recovery.survey([key], told.append)
    world.advance(1600)
    assert [set(found) for found in told] == [{key}]
    sender.positions = {1: (5, 100), 2: (5, 500)}
    world.advance(3000)
    assert world.partition("t").leader == 2


def test_an_answer_of_a_process_that_died_does_not_count_for_the_next_one() -> None:
    sender = LateSender()
    world = leaderless(sender, BALANCED)
    world.revive(3)  # after an unclean shutdown: no replica is eligible
    sender.positions = {1: (0, 31), 3: (0, 40)}
    sender.late.clear()
    while not sender.late:  # until all three are asked again, and 2 is awaited
        world.advance(100)
    world.kill(3)
    sender.positions |= {2: (0, 30), 3: (0, 20)}
    world.revive(3, incarnation=8000)
    sender.answer()
    world.settle()
    assert world.partition("t").leader == -1, "3 has to be asked again"
    world.advance(4000)
    assert world.partition("t").leader == 1


def test_an_answer_to_a_survey_that_has_ended_says_nothing_in_the_next_one() -> None:
    sender = LateSender()
    world = leaderless(sender, UNCLEAN)
    first = list(sender.late)
    world.controller.on_leader_change(-1, 2)
    sender.late.clear()
    world.quorum.epoch = 3
    world.controller.on_leader_change(100, 3)
    world.settle()
    sender.positions = {1: (5, 900), 2: (5, 100)}
    for each in first:  # what was meant for the one that ended
        sender.send(*each)
    world.settle()
    assert world.partition("t").leader == -1
    sender.positions = {1: (5, 50), 2: (5, 100)}
    sender.answer()
    world.settle()
    assert world.partition("t").leader == 2
