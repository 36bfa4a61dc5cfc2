"""The runtime: who is active, what is undone, when answers come, work in slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.controller.active import broker_fencing
from barnabas.controller.active.quorum_controller import _Waiting
from barnabas.controller.brokers import controlled_shutdown
from barnabas.controller.decision import Decision
from barnabas.controller.handlers.create_topics import API as CREATE_TOPICS
from barnabas.controller.partitions.failover_reconcile import reconcile
from barnabas.limits import DecisionBounds
from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.begin_transaction_record import BeginTransactionRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.create_topics_response import CreateTopicsResponse
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message
from tests.unit.controller.harness import Committed, World, uuid
from tests.unit.metadata.strategies import holds

USUAL = DecisionBounds()
SLICE = USUAL.slice_max * USUAL.slices_per_turn
"""Partitions of one turn in which time does not move."""
CREATE = CreateTopicsRequest(
    topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
)


def test_the_first_leader_commits_the_bootstrap_records_once() -> None:
    world = World()
    assert world.image.features["metadata.version"] == 33
    before = world.quorum.log_end_offset
    world.failover()
    assert world.quorum.log_end_offset == before


def test_a_standby_refuses_and_names_the_active_controller() -> None:
    world = World()
    world.controller.on_leader_change(2, 9)
    answer = world.ask(CREATE)
    assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert "node 2" in answer.topics[0].error_message


def test_a_controller_whose_leadership_has_ended_decides_nothing() -> None:
    """A vote that is on its way to the disk ended it, while what it leads on was still being applied."""
    world = World()
    late = world.new_controller()
    world.quorum.is_active = False
    late.on_leader_change(100, 2)
    assert not late.is_active and not late.describe()["work"]
    late.on_leader_change(-1, 3)
    world.quorum.is_active = True
    late.on_leader_change(100, 4)
    assert late.is_active


def test_uncommitted_records_are_undone_when_leadership_is_lost() -> None:
    world = World()
    world.join(1)
    before = holds(world.image)
    parked = world.start(CREATE)
    box: list[Any] = []
    parked.attach(box.append)
    assert "t" in world.image.topics_by_name
    world.controller.on_leader_change(-1, 2)
    assert box[0].topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert holds(world.image) == before


def test_records_that_a_later_leader_commits_are_replayed_after_being_undone() -> None:
    world = World()
    world.join(1)
    world.start(CREATE)
    world.controller.on_leader_change(2, 2)
    assert len(world.image.topics_by_name) == 0
    world.quorum.commit()
    assert "t" in world.image.topics_by_name


def test_a_transaction_left_open_is_aborted_by_the_next_controller() -> None:
    world = World()
    records = [BeginTransactionRecord(name="half"), TopicRecord(name="x", topic_id=uuid(1))]
    world.quorum.batches.append(
        Committed(world.quorum.log_end_offset + 1, 1, 0, list(encode_records(records, 30)))
    )
    world.quorum.commit()
    assert world.image.describe()["in_transaction"]
    world.failover()
    assert not world.image.describe()["in_transaction"]
    assert "x" not in world.image.topics_by_name


def test_the_snapshot_of_the_active_controller_is_what_is_committed() -> None:
    world = World()
    world.join(1, 2)
    committed = holds(world.image)
    world.start(CREATE)
    chunks = world.controller.snapshot()
    assert chunks is not None
    values = [value for chunk in chunks for value in chunk]

    loaded = MetadataImage(track_changes=False)
    loaded.replay_values(values, world.controller.committed_offset, 1)
    other = world.new_controller()
    other.on_snapshot_coming()
    other.on_snapshot(loaded)
    assert holds(other.image) == committed
    world.settle()
    assert "t" in world.image.topics_by_name


def test_reads_wait_for_what_they_were_made_on() -> None:
    world = World()
    world.join(1)
    assert not hasattr(world.start(ListPartitionReassignmentsRequest(topics=None)), "attach")
    world.start(CREATE)
    assert hasattr(world.start(ListPartitionReassignmentsRequest(topics=None)), "attach")


class HurriedClock:
    """Each look at it takes its time."""

    def __init__(self, look_ms: float) -> None:
        self.at_ms = 1000.0
        self._look_ms = look_ms

    def now_ms(self) -> float:
        self.at_ms += self._look_ms
        return self.at_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000


def big_world(partitions: int) -> World:
    world = World()
    world.join(1, 2, 3)
    for i in range(0, partitions, 500):
        count = min(500, partitions - i)
        world.create(f"t{i}", [[1, 2, 3] if p % 2 else [2, 3, 1] for p in range(count)])
    return world


def test_a_broker_with_many_partitions_is_fenced_in_slices_leaders_first() -> None:
    world = big_world(3 * SLICE)
    world.ports.network.refusing.add(Endpoint("h", 9001))
    start = len(world.quorum.batches)
    world.controller.on_connection_closed(501)
    turns = 0
    while world.ports.wakeups.soon:
        world.ports.wakeups.soon.pop(0)()
        turns += 1
        # Served in between, and the dying broker cannot come back.
        assert not world.controller.cluster.is_active(1)
    world.settle()
    assert turns > 3
    assert max(len(b.values) for b in world.quorum.batches[start:]) <= USUAL.slice_max + 1
    assert world.image.brokers[1].fenced and not world.controller.cluster.departing
    for topic in world.image.topics_by_id.values():
        assert all(1 not in isr for isr in topic.isr) and 1 not in topic.leader


@pytest.mark.parametrize(("look_ms", "steps"), [(0.0, USUAL.slices_per_turn), (2.0, 3), (9.0, 1)])
def test_a_turn_of_long_work_ends_by_the_clock_or_by_its_steps(look_ms: float, steps: int) -> None:
    world = World()
    world.ports.clock = HurriedClock(look_ms)  # type: ignore[assignment]
    taken: list[int] = []

    def work() -> Iterator[Decision[None]]:
        for number in range(100):
            taken.append(number)
            yield Decision(None)

    world.controller.begin(work())
    world.ports.wakeups.soon.pop(0)()
    assert len(taken) == steps
    world.settle()
    assert len(taken) == 100


def fenced(world: World) -> list[int]:
    return [broker for broker, known in world.image.brokers.items() if known.fenced]


@pytest.mark.parametrize("partitions", [3, 3 * SLICE])
def test_a_fault_while_a_broker_is_fenced_is_not_the_end_of_fencing(
    partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = big_world(partitions)
    world.ports.network.refusing.update({Endpoint("h", 9001), Endpoint("h", 9003)})

    def fail(*others: object) -> Iterator[list[int]]:
        monkeypatch.undo()
        raise MemoryError("for a moment")

    monkeypatch.setattr(
        broker_fencing, "partitions_leaders_first" if partitions == 3 else "replicas_of", fail
    )
    world.controller.on_connection_closed(501)
    with pytest.raises(MemoryError):  # the loop tells of it, and continues
        world.settle()
    world.controller.on_connection_closed(503)
    world.settle()
    assert fenced(world) == [3]
    for _ in range(10):
        world.heartbeat(2)
        world.advance(1_000)
    assert fenced(world) == [1, 3] and not world.controller.cluster.departing
    assert all(topic.leader.count(2) == len(topic) for topic in world.image.topics_by_id.values())


def test_a_request_that_waits_for_work_that_fails_gets_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = big_world(3 * SLICE)
    box: list[Any] = []
    world.start(beat(world, want_fence=True), connection=501).attach(box.append)

    def fail(*others: object, **named: object) -> Iterator[Any]:
        monkeypatch.undo()
        raise MemoryError("for a moment")

    monkeypatch.setattr(controlled_shutdown, "isr_updates", fail)
    with pytest.raises(MemoryError):
        world.settle()
    assert box[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not world.heartbeat(1, want_fence=True).error_code
    assert world.image.brokers[1].fenced and not world.controller.cluster.departing


def test_a_controller_that_dies_between_slices_leaves_nothing_undone() -> None:
    world = big_world(3 * SLICE)
    world.ports.network.refusing.add(Endpoint("h", 9001))
    world.controller.on_connection_closed(501)
    world.ports.wakeups.soon.pop(0)()
    world.quorum.commit()
    world.ports.wakeups.soon.clear()
    assert any(1 in topic.leader for topic in world.image.topics_by_id.values())
    world.failover()
    assert world.image.brokers[1].fenced
    for topic in world.image.topics_by_id.values():
        assert all(1 not in isr for isr in topic.isr) and 1 not in topic.leader


def test_a_big_broker_is_registered_again_after_its_partitions_are_taken_over() -> None:
    world = big_world(2 * SLICE)
    world.controller.on_connection_closed(501)
    answer = world.register(1, incarnation=5)
    assert not answer.error_code
    assert world.image.brokers[1].epoch == answer.broker_epoch
    assert not world.controller.cluster.departing
    for topic in world.image.topics_by_id.values():
        assert all(1 not in isr for isr in topic.isr) and 1 not in topic.leader
    assert not world.heartbeat(1).is_fenced


def longest_turn(world: World) -> int:
    """Records of the turn in which most were written; runs all turns."""
    longest = 0
    while world.ports.wakeups.soon or world.quorum.committed < len(world.quorum.batches):
        before = world.quorum.log_end_offset
        if world.ports.wakeups.soon:
            world.ports.wakeups.soon.pop(0)()
        longest = max(longest, world.quorum.log_end_offset - before)
        world.quorum.commit()
    return longest


def test_a_request_whose_sliced_records_cannot_be_written_gets_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.join(1)

    def too_large(values: object) -> int:
        raise ValueError("no batch is that large")

    monkeypatch.setattr(world.quorum, "append", too_large)
    box: list[Any] = []
    many = CreatableTopic(name="t", num_partitions=2 * SLICE, replication_factor=1)
    world.start(CreateTopicsRequest(topics=[many])).attach(box.append)
    with pytest.raises(ValueError, match="no batch"):
        world.settle()
    assert box[0].topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not world.controller.backlog()["WaitingAnswers"]


def test_a_big_broker_that_wants_to_be_fenced_is_when_it_is_in_no_isr_any_more() -> None:
    world = big_world(3 * SLICE)
    box: list[Any] = []
    world.start(beat(world, want_fence=True), connection=501).attach(box.append)
    assert not world.controller.cluster.is_active(1)
    assert longest_turn(world) <= SLICE + 1
    assert box[0].is_fenced and world.image.brokers[1].fenced
    assert not world.controller.cluster.departing
    for topic in world.image.topics_by_id.values():
        assert all(1 not in isr for isr in topic.isr) and 1 not in topic.leader


def test_a_big_brokers_lost_directory_is_dropped_when_it_leads_nothing() -> None:
    world = World()
    assert not world.register(1, directories=(uuid(2001), uuid(2011))).error_code
    assert not world.heartbeat(1).is_fenced
    world.join(2, 3)
    world.create("t", [[1, 2, 3] if p % 2 else [2, 3, 1] for p in range(3 * SLICE)])
    topic = world.image.topics_by_name["t"]
    for index in range(len(topic)):
        topic.directories[index] = tuple(
            (uuid(2001) if index % 3 else uuid(2011)) if broker == 1 else uuid(2000 + broker)
            for broker in topic.replicas[index]
        )
    box: list[Any] = []
    world.start(beat(world, offline_log_dirs=[uuid(2001)]), connection=501).attach(box.append)
    assert len(world.image.brokers[1].directories) == 2
    assert longest_turn(world) <= SLICE + 1
    assert not box[0].is_fenced and not box[0].error_code
    assert list(world.image.brokers[1].directories) == [uuid(2011)]
    for index in range(len(topic)):
        assert (1 in topic.isr[index]) is (index % 3 == 0)
        assert topic.leader[index] == (1 if index % 2 and index % 3 == 0 else topic.leader[index])
        assert topic.leader[index] in topic.isr[index]


def beat(world: World, **wishes: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=world.epochs[1],
        current_metadata_offset=world.controller.committed_offset,
        **wishes,
    )


def test_a_broker_back_during_a_new_controllers_sweep_keeps_what_it_got() -> None:
    world = World()
    world.join(1, 3)
    world.create("t", [[3]] * (3 * USUAL.slice_max))
    world.kill(3)
    world.ports.network.refusing.clear()
    assert not world.register(3, incarnation=7003).error_code
    steps = reconcile(world.controller.cluster)
    world.controller.commit(next(steps))
    assert not world.heartbeat(3).is_fenced
    epochs = list(world.image.topics_by_name["t"].leader_epoch)
    for step in steps:
        world.controller.commit(step)
    assert list(world.image.topics_by_name["t"].leader_epoch) == epochs
    assert len(led(world, 3)) == 3 * USUAL.slice_max


def losing_a_directory(then: str) -> World:
    """Broker 1 has lost one of its directories, and what that means is decided in slices; then something else
    happens to it."""
    world = World()
    world.register(1, directories=(uuid(2001), uuid(2011)))
    world.heartbeat(1)
    world.join(2)
    world.create("t", [[1, 2]] * (4 * SLICE))
    lost = beat(world, offline_log_dirs=[uuid(2001)])
    world.start(lost, connection=501)
    world.ports.wakeups.soon.pop(0)()
    assert 1 in world.controller.cluster.departing
    if then == "loses the other one":
        world.start(beat(world, offline_log_dirs=[uuid(2001), uuid(2011)]), connection=501)
    elif then == "wants to be fenced, twice":
        world.start(beat(world, want_fence=True), connection=501)
        world.start(beat(world, want_fence=True), connection=501)
    elif then == "dies and is unregistered":
        world.ports.network.refusing.add(Endpoint("h", 9001))
        world.controller.on_connection_closed(501)
        world.start(UnregisterBrokerRequest(broker_id=1))
    elif then == "dies":
        world.ports.network.refusing.add(Endpoint("h", 9001))
        world.controller.on_connection_closed(501)
    elif then == "falls silent":
        world.controller.liveness.on_time(world.ports.clock.at_ms + 9_500)
    world.settle()
    return world


@pytest.mark.parametrize(
    "then",
    [
        "loses the other one",
        "wants to be fenced, twice",
        "dies and is unregistered",
        "dies",
        "falls silent",
    ],
)
def test_changes_of_a_broker_that_is_losing_a_directory_take_effect(then: str) -> None:
    world = losing_a_directory(then)
    known = world.image.brokers.get(1)
    assert known is None or known.fenced
    assert not led(world, 1) and not world.controller.cluster.departing
    assert not any(1 in isr for isr in world.image.topics_by_name["t"].isr)


def test_a_broker_that_loses_a_directory_in_slices_is_active_afterwards() -> None:
    world = losing_a_directory("nothing")
    assert world.controller.cluster.is_active(1) and not world.controller.cluster.departing
    assert list(world.image.brokers[1].directories) == [uuid(2011)]


def led(world: World, broker: int) -> list[int]:
    """Positions of the partitions of t that the broker leads."""
    leaders = world.image.topics_by_name["t"].leader
    return [index for index, leader in enumerate(leaders) if leader == broker]


@pytest.mark.parametrize("dies", [False, True])
def test_a_shutdown_in_slices_waits_until_others_have_replayed_the_last_one(dies: bool) -> None:
    world = World()
    world.join(1, 2)
    world.create("t", [[1, 2]] * (3 * SLICE))
    world.start(beat(world, want_shut_down=True), connection=501)
    world.quorum.commit()
    if dies:
        world.ports.wakeups.soon.clear()
        world.failover()
    first = world.quorum.batches[world.quorum.committed - 1].last_offset
    world.settle()
    assert not led(world, 1)
    if not dies:
        world.heartbeat(2, offset=first)
        assert not world.heartbeat(1, want_shut_down=True).should_shut_down
    last = world.controller.committed_offset
    world.heartbeat(2, offset=last - 1)
    assert not world.heartbeat(1, want_shut_down=True).should_shut_down
    world.heartbeat(2, offset=last)
    assert world.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_back_while_it_is_fenced_with_others_gets_what_it_led() -> None:
    world = World()
    world.join(1, 2, 3)
    world.create("many", [[1, 2]] * (4 * SLICE))
    world.create("t", [[3]] * 100)
    for broker in (2, 3):
        world.ports.network.refusing.add(Endpoint("h", 9000 + broker))
        world.controller.on_connection_closed(500 + broker)
    world.ports.wakeups.soon.pop(0)()
    world.ports.network.refusing.clear()
    box: list[Any] = []
    world.start(world.registration(3, 7003)).attach(box.append)
    world.quorum.commit()
    assert set(world.controller.cluster.departing) == {2, 3}, "2 is not fenced yet"
    again = BrokerHeartbeatRequest(
        broker_id=3, broker_epoch=box[0].broker_epoch, current_metadata_offset=1_000_000
    )
    assert world.ask(again, connection=503).is_fenced
    world.settle()
    assert not world.ask(again, connection=503).is_fenced
    assert len(led(world, 3)) == 100


def registering(world: World, *then: Message) -> tuple[list[Any], list[Any]]:
    """Broker 1, which has the only replicas of t, died and registers again in slices, and something else
    is asked for before it has: both answers. It serves as soon as it may."""
    world.join(1, 2)
    world.create("t", [[1]] * (4 * SLICE))
    world.kill(1)
    world.ports.network.refusing.clear()
    first: list[Any] = []
    world.start(world.registration(1, 7001)).attach(first.append)
    others: list[Any] = []
    for request in then:
        world.start(request).attach(others.append)
    while not first:
        world.ports.wakeups.soon.pop(0)()
        world.quorum.commit()
    world.epochs[1] = first[0].broker_epoch
    assert not world.heartbeat(1).is_fenced
    world.settle()
    return first, others


def test_a_broker_that_registers_while_it_is_unregistered_stays() -> None:
    world = World()
    _, [answer] = registering(world, UnregisterBrokerRequest(broker_id=1))
    assert not answer.error_code
    assert 1 in world.image.brokers and not world.controller.cluster.departing
    assert len(led(world, 1)) == 4 * SLICE


@pytest.mark.parametrize("incarnation", [7001, 7002])
def test_a_broker_that_registers_twice_in_slices_is_registered_once(incarnation: int) -> None:
    world = World()
    [first], [second] = registering(world, world.registration(1, incarnation))
    assert world.image.brokers[1].epoch == first.broker_epoch
    assert not world.image.brokers[1].fenced and len(led(world, 1)) == 4 * SLICE
    if incarnation == 7001:
        assert second.broker_epoch == first.broker_epoch
    else:
        assert second.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_registration_in_slices_must_support_the_levels_in_force_then() -> None:
    world = big_world(2 * SLICE)
    world.controller.on_connection_closed(501)
    request = world.registration(1, 5)
    [feature] = [f for f in request.features if f.name == "group.version"]
    feature.max_supported_version = 0
    world.controller.commit(Decision(None, [FeatureLevelRecord(name=feature.name)]))
    box: list[Any] = []
    world.start(request).attach(box.append)
    world.controller.commit(
        Decision(None, [FeatureLevelRecord(name=feature.name, feature_level=1)])
    )
    world.settle()
    assert box[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    assert not world.controller.cluster.departing


def test_registration_in_slices_is_answered_when_leadership_is_lost() -> None:
    world = big_world(2 * SLICE)
    world.controller.on_connection_closed(501)
    from barnabas.wire.messages import broker_registration_request as messages

    request = messages.BrokerRegistrationRequest(
        broker_id=1, cluster_id="castle", incarnation_id=uuid(5),
        listeners=[messages.Listener(name="PLAINTEXT", host="h", port=9001)],
        features=[
            messages.Feature(name=n, min_supported_version=r.lowest, max_supported_version=r.highest)
            for n, r in world.image.brokers[1].features.items()
        ],
        log_dirs=[uuid(2001)],
    )  # fmt: skip
    box: list[Any] = []
    world.start(request).attach(box.append)
    world.controller.on_leader_change(-1, 3)
    assert box[0].error_code == ErrorCode.NOT_CONTROLLER


def test_everything_can_be_given_back_to_its_preferred_leaders_in_slices() -> None:
    world = big_world(2 * SLICE)
    world.kill(1)
    world.revive(1, clean=True)
    from barnabas.controller.decision import Decision
    from barnabas.controller.partitions.partition_change import PartitionChangeBuilder

    for topic in world.image.topics_by_id.values():
        for index in range(len(topic)):
            change = PartitionChangeBuilder(world.controller.cluster, topic, index)
            change.isr = topic.replicas[index]
            record = change.build()
            assert record is not None
            world.controller.commit(Decision(None, [record]))
    world.settle()
    answer = world.ask(ElectLeadersRequest(election_type=0, topic_partitions=None))
    assert sum(len(t.partition_result) for t in answer.replica_election_results) == SLICE
    for topic in world.image.topics_by_id.values():
        assert list(topic.leader) == [r[0] for r in topic.replicas]


def test_an_election_of_all_names_every_topic_and_of_some_those_asked() -> None:
    world = World()
    world.join(1, 2)
    world.create("here", [[1, 2]])
    world.create("there", [[1, 2], [2, 1]])

    def answered(*topics: tuple[str, list[int]]) -> list[tuple[str, list[int]]]:
        wanted = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics]
        request = ElectLeadersRequest(election_type=0, topic_partitions=wanted or None)
        return [
            (t.topic, [p.partition_id for p in t.partition_result])
            for t in world.ask(request).replica_election_results
        ]

    assert answered() == [("here", []), ("there", [])]
    twice = ("there", [1]), ("here", [0]), ("there", [0])
    assert answered(*twice) == list(twice)


def test_preferred_leaders_come_back_by_themselves_when_they_are_in_sync() -> None:
    world = World({"leader.imbalance.check.interval.seconds": "5"})
    world.join(1, 2, 3)
    world.create("t", [[1, 2, 3], [2, 3, 1], [1, 3, 2]])
    world.kill(1)
    world.revive(1, clean=True)

    def beat(seconds: int) -> None:
        for _ in range(seconds):
            world.advance(1000)
            for broker in (1, 2, 3):
                world.heartbeat(broker)

    beat(6)
    assert world.partition("t", 0).leader == 2
    notes = world.controller.refusals.since()
    assert any("has not caught up" in note.reason for note in notes)
    for index in (0, 2):
        topic = world.image.topics_by_name["t"]
        enter(world, topic, index, [*topic.isr[index], 1])
    beat(6)
    assert list(world.image.topics_by_name["t"].leader) == [1, 2, 1]


def enter(world: World, topic: Any, index: int, isr: list[int]) -> None:
    from barnabas.wire.messages import alter_partition_request as alter

    leader = topic.leader[index]
    answer = world.ask(
        alter.AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=world.epochs[leader],
            topics=[
                alter.TopicData(
                    topic_id=topic.id,
                    partitions=[
                        alter.PartitionData(
                            partition_index=index,
                            leader_epoch=topic.leader_epoch[index],
                            partition_epoch=topic.partition_epoch[index],
                            new_isr_with_epochs=[
                                alter.BrokerState(broker_id=b, broker_epoch=world.epochs[b])
                                for b in isr
                            ],
                        )
                    ],
                )
            ],
        )
    )
    assert not answer.topics[0].partitions[0].error_code


def test_one_isr_member_stays_without_elr_where_all_die_at_once() -> None:
    world = World(bootstrap=bootstrap_records(metadata_version=14))
    world.join(1, 2, 3)
    world.create("t", [[1, 2, 3]])
    world.kill(1, 2, 3)
    state = world.partition("t")
    assert (state.leader, state.isr) == (-1, (1,)), "all at once as one by one (seed 40)"


def test_the_log_of_an_older_metadata_version_is_written_in_its_records() -> None:
    world = World(bootstrap=bootstrap_records(metadata_version=14))
    world.join(1, 2)
    assert not world.image.elr_enabled
    world.create("t", [[1, 2]])
    world.kill(1)
    assert world.partition("t").isr == (2,)
    world.kill(2)
    state = world.partition("t")
    assert (state.leader, state.isr) == (-1, (2,)), "without ELR the last member stays"
    versions = {value[1]: value[2] for b in world.quorum.batches for value in b.values}
    assert versions[3] == 0 and versions[5] == 0 and versions[0] == 2


def test_a_fault_at_one_deadline_leaves_the_others_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.join(1)
    controller, kept = world.controller, list[float]()

    def fail(now_ms: float) -> None:
        raise RuntimeError("a fault of the program")

    monkeypatch.setattr(controller.liveness, "on_time", fail)
    monkeypatch.setattr(controller.leader_search, "on_time", kept.append)
    for _ in range(2):
        assert controller._wakeup is not None
        with pytest.raises(RuntimeError):
            controller._on_wakeup()
    assert len(kept) == 2


def test_a_callback_that_raises_at_a_resignation_leaves_no_request_waiting() -> None:
    world = World()
    first, second = Parked(), Parked()
    told = list[Message | None]()

    def fail(answer: Message | None) -> None:
        raise RuntimeError("a fault of the program")

    first.attach(fail)
    second.attach(told.append)
    for parked in (first, second):
        waiting = _Waiting(99, parked, CreateTopicsResponse(), CREATE_TOPICS, CREATE)
        world.controller._waiting.append(waiting)
    with pytest.raises(RuntimeError):
        world.controller._resign("the test wants it")
    assert len(told) == 1 and not world.controller._waiting
