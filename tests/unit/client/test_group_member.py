"""Members of a group share its partitions, and share them again when one comes, leaves or is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.client import Client
from barnabas.client.consumers.assignors import (
    assign_range,
    assign_round_robin,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.consumers.group_member import GroupMemberSettings
from barnabas.client.producers.producer import Producer
from barnabas.client.records import ProducerRecord
from barnabas.types import TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.codec import MalformedError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat_response import HeartbeatResponse
from barnabas.wire.messages.sync_group_response import SyncGroupResponse
from barnabas.wire.request import Parked
from tests.unit.client.fake_cluster import FakeCluster, FakePartition
from tests.unit.client.fake_coordinator import FakeCoordinator

SETTINGS = ConsumerSettings(auto_offset_reset="earliest")


class Group:
    def __init__(self, partitions: int = 4) -> None:
        self.cluster = FakeCluster(nodes=1, partitions=partitions)
        self.coordinator = FakeCoordinator()
        self.coordinator.serve(self.cluster.servers[1].table)

    def consumer(self, client: Client | None = None) -> Consumer:
        consumer = Consumer(client or self.cluster.client(), "g", SETTINGS)
        consumer.subscribe(["t"])
        return consumer

    def run(self, ms: float) -> None:
        self.cluster.world.run(self.cluster.world.now + ms)

    def serve_again(self) -> None:
        """The coordinator's broker was gone, and knows its groups."""
        self.cluster.start(1)
        self.coordinator.serve(self.cluster.servers[1].table)


def held(*consumers: Consumer) -> list[list[int]]:
    return [[tp.partition for tp in consumer.assignment] for consumer in consumers]


def test_one_takes_all_and_a_second_takes_half() -> None:
    group = Group()
    first = group.consumer()
    group.run(100)
    assert held(first) == [[0, 1, 2, 3]] and first.is_stable
    second = group.consumer()
    group.run(5000)
    assert held(first, second) == [[0, 1], [2, 3]]
    first._client.tasks.start(first.close())
    group.run(5000)
    assert held(second) == [[0, 1, 2, 3]]
    assert not [line for line in group.cluster.world.lines if line[0] != "debug"]


def test_nothing_is_read_twice_when_positions_are_committed_on_revocation() -> None:
    group = Group(partitions=2)
    producer = Producer(group.cluster.client())
    for i in range(40):
        producer.send(ProducerRecord("t", b"%d" % i, partition=i % 2))
    group.run(100)
    first = group.consumer()
    group.run(200)
    got = [r.value for r in first.poll(20)]
    first._client.tasks.start(first.commit())
    group.run(50)
    second = group.consumer()
    group.run(5000)
    got += [r.value for r in first.poll(100)] + [r.value for r in second.poll(100)]
    assert sorted(int(v or b"") for v in got) == list(range(40))


@pytest.mark.parametrize("trouble", ["forgotten", "moved", "restarted"])
def test_a_member_finds_its_way_back(trouble: str) -> None:
    group = Group()
    consumer = group.consumer()
    group.run(100)
    before = consumer.identity
    if trouble == "forgotten":
        group.coordinator.forget("member-1")
    elif trouble == "moved":
        group.coordinator.moved = 1
    else:
        group.cluster.kill(1)
        group.run(4000)
        group.serve_again()
    group.run(8000)
    assert held(consumer) == [[0, 1, 2, 3]] and consumer.is_stable
    # One that the coordinator still knows has nothing to join for.
    assert (consumer.identity != before) is (trouble == "forgotten")


def test_a_member_that_lost_its_connection_continues_where_it_was() -> None:
    group = Group(partitions=1)
    producer = Producer(group.cluster.client())
    for i in range(4):
        producer.send(ProducerRecord("t", b"%d" % i, partition=0))
    consumer = group.consumer()
    group.run(1000)
    assert [r.value for r in consumer.poll()] == [b"0", b"1", b"2", b"3"]
    group.coordinator.moved = 1
    group.run(8000)
    assert not consumer.poll()


def test_partitions_of_a_former_generation_are_revoked_before_the_next_join() -> None:
    """Committed under the next generation, positions of partitions that are another's by then would take
    that member's own commits back."""
    group = Group()
    first = group.consumer()
    group.run(100)
    group.cluster.kill(1)
    group.run(4000)
    joining: list[list[list[int]]] = []
    join = group.coordinator.join

    def watched(request: Any, ctx: Any, role: Any) -> Any:
        if request.member_id == "member-1":
            joining.append(held(first))
        return join(request, ctx, role)

    group.coordinator.join = watched  # type: ignore[method-assign]
    group.serve_again()
    second = group.consumer()
    group.run(8000)
    assert held(first, second) == [[0, 1], [2, 3]]
    assert joining and all(partitions == [[]] for partitions in joining)


def test_a_member_a_generation_ahead_of_its_coordinator_keeps_its_member_id() -> None:
    """A coordinator that takes over in the middle of a rebalance knows the members of the generation before:
    a member that came as a new one would have all of them wait for the end of its own former session."""
    group = Group()
    consumer = group.consumer()
    group.run(100)
    beat, refusals = group.coordinator.heartbeat, [ErrorCode.ILLEGAL_GENERATION]

    def refused_once(request: Any, ctx: Any, role: Any) -> Any:
        if refusals:
            return HeartbeatResponse(error_code=refusals.pop())
        return beat(request, ctx, role)

    group.cluster.servers[1].table.replace(ApiKey.HEARTBEAT, refused_once)
    group.run(8000)
    assert not refusals and consumer.is_stable
    assert held(consumer) == [[0, 1, 2, 3]]
    assert list(group.coordinator.members) == ["member-1"]


def test_two_members_of_one_client_do_not_wait_for_each_other() -> None:
    group = Group()
    client = group.cluster.client()
    first, second = group.consumer(client), group.consumer(client)
    group.run(100)
    third = group.consumer(client)
    group.run(8000)
    assert sorted(p for held_by in held(first, second, third) for p in held_by) == [0, 1, 2, 3]
    assert all(held(first, second, third))


@pytest.mark.parametrize("why", ["refused", "garbage"])
def test_a_member_that_is_refused_for_good_says_so(why: str) -> None:
    group = Group()
    consumer = group.consumer()
    group.run(100)
    if why == "refused":
        group.coordinator.refusal = ErrorCode.GROUP_MAX_SIZE_REACHED
    else:
        group.coordinator.members["member-2"] = b"no subscription"
        group.coordinator.joining["member-2"] = Parked()
    group.coordinator.rebalance()
    group.run(8000)
    assert consumer.failure is not None and held(consumer) == [[]]


def test_an_assignment_that_cannot_be_read_revokes_no_partition() -> None:
    group = Group()
    told: list[object] = []
    garbage = SyncGroupResponse(assignment=b"?")
    group.cluster.servers[1].table.replace(ApiKey.SYNC_GROUP, lambda *request: garbage)
    consumer = Consumer(
        group.cluster.client(), "g", SETTINGS, on_assigned=told.append, on_revoked=told.append
    )
    consumer.subscribe(["t"])
    group.run(100)
    assert consumer.failure is not None and not told


def test_a_static_member_that_closes_may_come_back() -> None:
    group = Group()
    settings = ConsumerSettings(group=GroupMemberSettings(instance_id="one"))
    consumer = Consumer(group.cluster.client(), "g", settings)
    consumer.subscribe(["t"])
    group.run(100)
    consumer._client.tasks.start(consumer.close())
    group.run(8000)
    assert list(group.coordinator.members) == ["member-1"]


@pytest.mark.parametrize("when", ["assigned", "revoked"])
def test_a_consumer_that_is_closed_by_what_it_tells_is_no_member_any_more(when: str) -> None:
    group = Group()
    client = group.cluster.client()

    def close(*partitions: object) -> None:
        client.tasks.start(first.close())

    first = Consumer(client, "g", SETTINGS, **{f"on_{when}": close})
    first.subscribe(["t"])
    group.run(100)
    second = group.consumer()
    group.run(20_000)
    assert held(first, second) == [[], [0, 1, 2, 3]]
    assert len(group.coordinator.members) == 1


@pytest.mark.parametrize("when", ["assigned", "revoked"])
def test_a_consumer_whose_callback_raises_says_so_and_reads_no_more(when: str) -> None:
    group = Group()

    def fail(partitions: object) -> None:
        raise ValueError("of the program around it")

    callbacks: dict[str, Any] = {f"on_{when}": fail}
    first = Consumer(group.cluster.client(), "g", SETTINGS, **callbacks)
    first.subscribe(["t"])
    group.run(100)
    second = group.consumer()
    group.run(20_000)
    assert first.failure is not None and "of the program around it" in first.failure.message
    assert first.assignment == []
    told = [line[1] for line in group.cluster.world.lines if line[0] == "error"]
    assert told == ["client.task_failed", "group.refused"]
    first._client.tasks.start(first.close())
    group.run(20_000)
    assert held(second) == [[0, 1, 2, 3]]


def test_a_callback_that_raises_at_the_close_of_a_consumer_keeps_none_waiting() -> None:
    group = Group()
    client = group.cluster.client()

    def fail(partitions: object) -> None:
        raise ValueError("of the program around it")

    first = Consumer(client, "g", SETTINGS, on_revoked=fail)
    first.subscribe(["t"])
    group.run(100)
    ended = client.tasks.start(first.close(), lambda outcome: None)
    group.run(100)
    assert not group.coordinator.members and first.assignment == [] and not client.fetching
    with pytest.raises(ValueError, match="of the program"):
        ended.result()


@pytest.mark.parametrize("joined", [True, False])
def test_a_consumer_that_subscribes_again_is_one_member_with_the_new_topics(
    joined: bool,
) -> None:
    group = Group()
    consumer = Consumer(group.cluster.client(), "g", SETTINGS)
    consumer.subscribe(["other"])
    if joined:
        group.run(100)
        assert held(consumer) == [[]]
    consumer.subscribe(["t"])
    group.run(20_000)
    assert held(consumer) == [[0, 1, 2, 3]] and len(group.coordinator.members) == 1
    consumer.subscribe([])
    group.run(20_000)
    assert held(consumer) == [[]] and len(group.coordinator.members) == 1


@pytest.mark.slow
def test_partitions_and_topics_that_come_later_are_assigned() -> None:
    group = Group(partitions=2)
    consumer = group.consumer()
    group.run(100)
    for index in (2, 3):
        group.cluster.partitions[index] = FakePartition(1)
    group.run(310_000)
    assert held(consumer) == [[0, 1, 2, 3]]
    late = Group()
    late.cluster.unknown = True
    consumer = late.consumer()
    late.run(10_000)
    assert held(consumer) == [[]]
    late.cluster.unknown = False
    late.run(10_000)
    assert held(consumer) == [[0, 1, 2, 3]]


def test_assignors_give_every_partition_once() -> None:
    subscriptions = {"b": ["x", "y"], "a": ["x"], "c": ["y"]}
    counts = {"x": 5, "y": 3}
    everything = {TopicPartition(t, p) for t, n in counts.items() for p in range(n)}
    assigns: list[Callable[..., dict[str, list[TopicPartition]]]]
    assigns = [assign_range, assign_round_robin]
    for assign in assigns:
        given = assign(subscriptions, counts)
        flat = [tp for partitions in given.values() for tp in partitions]
        assert len(flat) == len(everything) and set(flat) == everything
        assert all(tp.topic in subscriptions[m] for m, tps in given.items() for tp in tps)
    assert [tp.partition for tp in assign_range({"a": ["x"], "b": ["x"]}, counts)["a"]] == [0, 1, 2]


def test_protocol_messages_survive_and_garbage_does_not() -> None:
    partitions = [TopicPartition("x", 3), TopicPartition("x", 1), TopicPartition("y", 0)]
    assert read_assignment(write_assignment(partitions)) == partitions
    assert read_subscription(write_subscription(["b", "a"])) == ["a", "b"]
    assert read_assignment(b"") == []
    for garbage in (b"\x00", b"\xff\xff", b"\x00\x01\x00\x00\x00\x09"):
        with pytest.raises(MalformedError):
            read_subscription(garbage)
