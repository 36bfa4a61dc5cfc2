"""A leader asks share coordinators until one answers, within its patience."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.share.state_client import StateClient
from barnabas.broker.share.state_writes import StateWrite
from barnabas.client.network.connection import ChannelError
from barnabas.share.delivery import StateBatch
from barnabas.share.key import SharePartitionKey
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import read_share_group_state_response as read
from barnabas.wire.messages import write_share_group_state_response as written
from tests.unit.broker.fakes import advance, process

KEY = SharePartitionKey("g", Uuid(bytes(15) + b"\x01"), 2)
PATIENCE_MS = 5_000.0


class World:
    """Share coordinators that the test plays."""

    def __init__(self) -> None:
        self.ports = process()
        self.leader: int | None = 7
        self.topics_created = 0
        self.sent: list[tuple[int, Any, Any]] = []
        self.results: list[Any] = []
        peers: Any = self
        self.client = StateClient(
            self.ports, peers, lambda key: self.leader, self.create_topic, PATIENCE_MS
        )

    def create_topic(self) -> None:
        self.topics_created += 1

    def send(self, broker: int, request: Any, on_done: Any, *, purpose: str) -> None:
        self.sent.append((broker, request, on_done))

    def read(self) -> None:
        self.client.read(KEY, 3, self.results.append)

    def answer(self, code: int) -> None:
        part = read.PartitionResult(partition=2, error_code=code, start_offset=9)
        topic = read.ReadStateResult(topic_id=KEY.topic_id, partitions=[part])
        self.sent.pop(0)[2](read.ReadShareGroupStateResponse(results=[topic]))


def test_the_coordinator_s_answer_is_the_result() -> None:
    world = World()
    world.read()
    [(broker, request, _)] = world.sent
    [topic] = request.topics
    assert (broker, request.group_id, topic.topic_id) == (7, "g", KEY.topic_id)
    assert (topic.partitions[0].partition, topic.partitions[0].leader_epoch) == (2, 3)
    world.answer(0)
    assert [result.start_offset for result in world.results] == [9]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        None,
    ],
)
def test_a_coordinator_that_is_away_is_asked_again(code: ErrorCode | None) -> None:
    world = World()
    world.read()
    for leader in (8, 9):
        world.leader = leader
        if code is None:
            world.sent.pop(0)[2](ChannelError("closed", "gone"))
        else:
            world.answer(code)
        advance(world.ports, 100)
    assert [broker for broker, _, _ in world.sent] == [9]
    world.answer(0)
    assert [result.start_offset for result in world.results] == [9]


def test_the_last_error_is_the_result_once_the_patience_is_over() -> None:
    world = World()
    world.read()
    asked = 0
    while not world.results:
        asked += 1
        world.answer(ErrorCode.NOT_COORDINATOR)
        advance(world.ports, 1_001)
    assert world.results[0].code == ErrorCode.NOT_COORDINATOR
    assert 5 < asked < 15 and not world.sent


def test_the_topic_is_created_while_no_broker_coordinates() -> None:
    world = World()
    world.leader = None
    world.read()
    assert world.topics_created == 1 and not world.sent
    world.leader = 7
    advance(world.ports, 100)
    assert len(world.sent) == 1


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_other_errors_are_the_result(code: ErrorCode) -> None:
    world = World()
    world.read()
    world.answer(code)
    assert [result.code for result in world.results] == [code]


def test_an_answer_without_the_partition_is_an_error() -> None:
    world = World()
    world.read()
    world.sent.pop()[2](read.ReadShareGroupStateResponse(results=[]))
    assert world.results[0].code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_client_that_closes_asks_no_more() -> None:
    world = World()
    world.read()
    world.client.close()
    world.answer(ErrorCode.NOT_COORDINATOR)
    assert [result.code for result in world.results] == [ErrorCode.NOT_COORDINATOR]


def test_a_write_has_all_that_changed() -> None:
    world = World()
    batches = (StateBatch(4, 6, 3, 1), StateBatch(7, 7, 0, 2))
    world.client.write(KEY, StateWrite(5, 3, 4, 1, batches, ()), world.results.append)
    _, request, on_done = world.sent.pop()
    part = request.topics[0].partitions[0]
    assert (part.state_epoch, part.leader_epoch, part.start_offset) == (5, 3, 4)
    assert part.delivery_complete_count == 1
    found = [
        (b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
        for b in part.state_batches
    ]
    assert found == [tuple(batch) for batch in batches]
    topic = written.WriteStateResult(
        topic_id=KEY.topic_id, partitions=[written.PartitionResult(partition=2)]
    )
    on_done(written.WriteShareGroupStateResponse(results=[topic]))
    assert world.results[0].error_code == 0
