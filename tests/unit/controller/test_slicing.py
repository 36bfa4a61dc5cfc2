"""Requests about thousands of partitions are decided piece by piece, and answered as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.limits import DecisionBounds
from barnabas.types import ZERO_UUID
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_partition_reassignments_request as reassignments
from barnabas.wire.messages import alter_partition_request as alter
from barnabas.wire.messages import assign_replicas_to_dirs_request as assign
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.schema import Message
from tests.unit.controller.harness import World, uuid
from tests.unit.metadata.strategies import holds

DECIDED_INLINE_MAX = DecisionBounds().inline_max
DECIDED_PER_SLICE = DecisionBounds().slice_max
SLICES_PER_TURN_MAX = DecisionBounds().slices_per_turn

SIZE = 3 * DECIDED_INLINE_MAX + 7


def world_of(*topics: int) -> World:
    world = World()
    world.join(1, 2, 3, 4)
    for number, partitions in enumerate(topics):
        world.create(f"t{number}", [[1, 2, 3]] * partitions)
    return world


def begun(world: World, request: Message) -> list[Any]:
    """Where the answer comes."""
    box: list[Any] = []
    world.start(request).attach(box.append)
    return box


def largest_batch(world: World, since: int) -> int:
    return max(len(batch.values) for batch in world.quorum.batches[since:])


def moves(world: World) -> Message:
    return reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            reassignments.ReassignableTopic(
                name="t0",
                partitions=[
                    reassignments.ReassignablePartition(partition_index=i, replicas=[2, 3, 4])
                    for i in [*range(SIZE), SIZE + 9]
                ],
            )
        ]
    )


def isr_changes(world: World) -> Message:
    topic = world.image.topics_by_name["t0"]
    return alter.AlterPartitionRequest(
        broker_id=1,
        broker_epoch=world.epochs[1],
        topics=[
            alter.TopicData(
                topic_id=topic.id,
                partitions=[
                    alter.PartitionData(
                        partition_index=i, leader_epoch=0, new_isr=[1, 2], partition_epoch=0
                    )
                    for i in range(SIZE)
                ],
            )
        ],
    )


def directories(world: World) -> Message:
    topic = world.image.topics_by_name["t0"]
    return assign.AssignReplicasToDirsRequest(
        broker_id=2,
        broker_epoch=world.epochs[2],
        directories=[
            assign.DirectoryData(
                id=uuid(77),
                topics=[
                    assign.TopicData(
                        topic_id=topic.id,
                        partitions=[assign.PartitionData(partition_index=i) for i in range(SIZE)],
                    )
                ],
            )
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [moves, isr_changes, directories])
def test_each_piece_is_a_batch_and_all_are_answered_together(make: Any) -> None:
    world = world_of(SIZE)
    since = len(world.quorum.batches)
    box = begun(world, make(world))
    assert len(world.quorum.batches) == since, "nothing is decided in the turn of the request"
    assert world.ports.wakeups.run_soon() > SIZE // (DECIDED_PER_SLICE * SLICES_PER_TURN_MAX)
    assert largest_batch(world, since) <= DECIDED_PER_SLICE
    assert not box, "not before everything is committed"
    world.settle()
    topic = world.image.topics_by_name["t0"]
    if make is moves:
        [answer] = box[0].responses
        assert [p.error_code for p in answer.partitions] == [
            *[ErrorCode.NONE] * SIZE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert all(rare.adding == (4,) for rare in topic.rare.values()) and len(topic.rare) == SIZE
    elif make is isr_changes:
        assert set(topic.isr) == {(1, 2)}
        assert [p.isr for p in box[0].topics[0].partitions] == [(1, 2)] * SIZE
    else:
        assert {homes[1] for homes in topic.directories} == {uuid(77)}


def test_a_controller_that_resigns_between_slices_says_so_and_keeps_records() -> None:
    world = world_of(SIZE)
    box = begun(world, isr_changes(world))
    world.ports.wakeups.soon.pop(0)()
    world.quorum.commit()
    world.ports.wakeups.soon.clear()
    world.failover()
    assert box[0].error_code == ErrorCode.NOT_CONTROLLER
    assert (
        world.image.topics_by_name["t0"].isr.count((1, 2))
        == DECIDED_PER_SLICE * SLICES_PER_TURN_MAX
    )


@pytest.mark.slow
def test_topics_are_deleted_piece_by_piece() -> None:
    world = world_of(*[1] * SIZE)
    since = len(world.quorum.batches)
    names = [f"t{i}" for i in range(SIZE)]
    wanted = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in [*names, "t0", "none"]]
    box = begun(world, DeleteTopicsRequest(topics=wanted))
    world.settle()
    assert largest_batch(world, since) <= DECIDED_PER_SLICE
    told = {result.name: ErrorCode(result.error_code) for result in box[0].responses}
    assert len(told) == len(box[0].responses) == SIZE + 1
    assert told.pop("t0") is ErrorCode.INVALID_REQUEST, "named twice"
    assert told.pop("none") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert set(told.values()) == {ErrorCode.NONE}
    assert list(world.image.topics_by_name) == ["t0"]


@pytest.mark.slow
def test_ten_thousand_partitions_are_one_batch_and_leave_the_same_image() -> None:
    world = world_of(3)
    since = len(world.quorum.batches)
    box = begun(
        world,
        CreateTopicsRequest(
            topics=[CreatableTopic(name="big", num_partitions=7000, replication_factor=3)]
        ),
    )
    more = begun(
        world,
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t0", count=4000, assignments=None)]
        ),
    )
    before = holds(world.image)
    turns = 0
    while len(world.quorum.batches) == since:
        assert holds(world.image) == before or turns == 0, "no reader sees half a topic"
        world.ports.wakeups.soon.pop(0)()
        turns += 1
    assert turns >= 14
    undone = world.image.undo_uncommitted()
    assert holds(world.image) == before
    for again in undone:
        world.image.apply_uncommitted(*again)
    world.settle()
    assert [len(batch.values) for batch in world.quorum.batches[since:]] == [7001, 3997]
    assert not box[0].topics[0].error_code and not more[0].results[0].error_code
    replayed = world.new_controller()
    replayed.on_commit(world.quorum.batches)
    assert holds(replayed.image) == holds(world.image)
    assert {len(topic) for topic in world.image.topics_by_id.values()} == {7000, 4000}


def test_a_partition_moved_twice_in_one_request_goes_to_the_last_target() -> None:
    """Both were decided on one state: it had the replicas of the second, and 4, which is none of them, was
    on its way to it for ever."""
    world = world_of(1)
    targets = [[1, 2, 3, 4], [1, 2]]
    request = reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            reassignments.ReassignableTopic(
                name="t0",
                partitions=[
                    reassignments.ReassignablePartition(partition_index=0, replicas=replicas)
                    for replicas in targets
                ],
            )
        ]
    )
    [answer] = world.ask(request).responses
    assert [p.error_code for p in answer.partitions] == [ErrorCode.NONE] * 2
    topic = world.image.topics_by_name["t0"]
    assert (topic.replicas[0], topic.isr[0], dict(topic.rare)) == ((1, 2), (1, 2), {})


def test_the_second_change_of_one_isr_in_a_request_is_refused_as_outdated() -> None:
    world = world_of(1)
    topic = world.image.topics_by_name["t0"]
    partitions = [
        alter.PartitionData(partition_index=0, leader_epoch=0, new_isr=isr, partition_epoch=0)
        for isr in ([1, 2], [1, 3])
    ]
    request = alter.AlterPartitionRequest(
        broker_id=1,
        broker_epoch=world.epochs[1],
        topics=[alter.TopicData(topic_id=topic.id, partitions=partitions)],
    )
    [answer] = world.ask(request).topics
    assert [p.error_code for p in answer.partitions] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert (topic.isr[0], topic.partition_epoch[0]) == ((1, 2), 1)


def test_a_sliced_registration_takes_no_directory_another_broker_has_by_then() -> None:
    world = world_of(300, 300)
    world.controller.on_connection_closed(501)
    box = begun(world, world.registration(1, 5, directories=(uuid(777),)))
    assert not begun(world, world.registration(9, 6, directories=(uuid(777),))) and not box
    world.settle()
    assert box[0].error_code == ErrorCode.INVALID_REGISTRATION
    assert [b.id for b in world.image.brokers.values() if uuid(777) in b.directories] == [9]


def test_a_broker_that_is_unregistered_twice_in_slices_leaves_once() -> None:
    world = world_of(300, 300)
    since = world.image.ignored
    first, second = (begun(world, UnregisterBrokerRequest(broker_id=1)) for _ in range(2))
    world.settle()
    assert not first[0].error_code and not second[0].error_code
    assert 1 not in world.image.brokers
    # Apache Kafka's controllers end themselves over a record about a broker that is not there.
    assert world.image.ignored == since
