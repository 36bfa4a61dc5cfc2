"""CreateTopics, CreatePartitions, DeleteTopics: what is refused, with which code, and what is made."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.types import DIRECTORY_UNASSIGNED, ZERO_UUID
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.request import Parked
from tests.unit.controller.harness import World, uuid


def topic(name: str, partitions: int = -1) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)


@pytest.fixture
def world() -> World:
    world = World({"num.partitions": "4", "default.replication.factor": "2"})
    world.join(1, 2, 3)
    return world


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string"),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION, "'.' is not allowed"),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII"),
        ("ä", ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII"),
        ("x\n", ErrorCode.INVALID_TOPIC_EXCEPTION, "other than ASCII"),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION, "249"),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST, "prohibited"),
        ("flights", ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: a.b"),
    ],
)
def test_names_are_checked(world: World, name: str, code: ErrorCode, says: str) -> None:
    world.create("flights", [[1]])
    world.create("a.b", [[1]])
    answer = world.create(name)
    assert ErrorCode(answer.error_code) is code
    assert says in answer.error_message


def test_the_longest_name_is_allowed(world: World) -> None:
    assert not world.create("x" * 249).error_code


def test_defaults_come_from_the_controllers_configuration(world: World) -> None:
    answer = world.create("flights")
    assert (answer.num_partitions, answer.replication_factor) == (4, 2)
    assert answer.topic_id != ZERO_UUID
    state = world.partition("flights")
    assert (state.leader_epoch, state.partition_epoch, state.leader) == (0, 0, state.replicas[0])
    assert state.directories == tuple(uuid(2000 + b) for b in state.replicas)


@pytest.mark.parametrize(
    ("kwargs", "code", "says"),
    [
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS, "non-positive"),
        ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS, "non-positive"),
        ({"factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        ({"factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        ({"factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR, "replication factor of 4"),
        ({"factor": 32767}, ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker"),
        ({"partitions": 2147483647}, ErrorCode.POLICY_VIOLATION, "large"),
        ({"assignments": [[1, 1]]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        ({"assignments": [[9]]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        ({"assignments": [[]]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        ({"assignments": [[1], [1, 2]]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not consistent"),
        ({"assignments": [[1]], "factor": 1}, ErrorCode.INVALID_REQUEST, "not set to -1"),
        ({"assignments": [[1]], "partitions": 1}, ErrorCode.INVALID_REQUEST, "not set to -1"),
        ({"configs": {"no.such": "1"}}, ErrorCode.INVALID_CONFIG, "no.such"),
        ({"configs": {"retention.ms": "x"}}, ErrorCode.INVALID_CONFIG, "retention.ms"),
        ({"configs": {"min.insync.replicas": "0"}}, ErrorCode.INVALID_CONFIG, "min.insync"),
        ({"configs": {"cleanup.policy": None}}, ErrorCode.INVALID_CONFIG, "Null value"),
    ],
)  # fmt: skip
def test_an_impossible_topic_is_refused(
    world: World, kwargs: dict[str, Any], code: ErrorCode, says: str
) -> None:
    answer = world.create("t", **kwargs)
    assert ErrorCode(answer.error_code) is code
    assert says in answer.error_message
    assert "t" not in world.image.topics_by_name


def test_one_bad_topic_does_not_stop_the_others(world: World) -> None:
    answer = world.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name="good", num_partitions=1, replication_factor=1),
                CreatableTopic(name="bad", num_partitions=0, replication_factor=1),
                CreatableTopic(name="twice", num_partitions=1, replication_factor=1),
                CreatableTopic(name="twice", num_partitions=1, replication_factor=1),
            ]
        )
    )
    assert {t.name: ErrorCode(t.error_code).name for t in answer.topics} == {
        "good": "NONE", "bad": "INVALID_PARTITIONS", "twice": "INVALID_REQUEST"
    }  # fmt: skip
    assert list(world.image.topics_by_name) == ["good"]


def test_two_topics_of_one_request_collide(world: World) -> None:
    answer = world.ask(CreateTopicsRequest(topics=[topic("a.b"), topic("a_b")]))
    assert [t.error_code for t in answer.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_validate_only_writes_nothing(world: World) -> None:
    before = world.quorum.log_end_offset
    answer = world.ask(CreateTopicsRequest(topics=[topic("t", 3)], validate_only=True))
    assert answer.topics[0].num_partitions == 3
    assert world.quorum.log_end_offset == before


def test_the_answer_tells_configurations_with_their_sources(world: World) -> None:
    answer = world.create("t", configs={"retention.ms": "5"})
    sources = {c.name: (c.value, c.config_source) for c in answer.configs}
    assert sources["retention.ms"] == ("5", 1)
    assert sources["segment.bytes"] == ("1073741824", 5)
    assert sources["min.insync.replicas"] == ("1", 3)


def test_fenced_brokers_are_in_an_assignment_and_not_in_the_isr(world: World) -> None:
    world.kill(3)
    world.create("t", [[3, 1, 2]])
    state = world.partition("t")
    assert (state.replicas, state.isr, state.leader) == ((3, 1, 2), (1, 2), 1)
    refused = world.create("u", [[3]])
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "fenced or in controlled shutdown" in refused.error_message


def test_a_broker_with_several_directories_is_unassigned() -> None:
    world = World()
    world.register(1, directories=(uuid(101), uuid(102)))
    world.register(1, directories=(uuid(111), uuid(112)))
    world.heartbeat(1)
    world.create("t", [[1]])
    assert world.partition("t").directories == (DIRECTORY_UNASSIGNED,)


def test_the_answer_waits_until_the_topic_is_committed(world: World) -> None:
    request = CreateTopicsRequest(topics=[topic("t")])
    parked = world.start(request)
    box: list[Any] = []
    parked.attach(box.append)
    assert "t" in world.image.topics_by_name and not box
    again = world.start(request)
    second: list[Any] = []
    again.attach(second.append)
    assert not second, "made on what is not committed"
    world.settle()
    assert not box[0].topics[0].error_code
    assert second[0].topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


# -- partitions ------------------------------------------------------------------------------------


def grow(world: World, name: str, count: int, assignments: list[list[int]] | None = None) -> Any:
    given = None
    if assignments is not None:
        given = [CreatePartitionsAssignment(broker_ids=a) for a in assignments]
    return world.ask(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=given)]
        )
    ).results[0]


def test_partitions_are_added(world: World) -> None:
    world.create("t", [[1, 2]])
    assert not grow(world, "t", 5).error_code
    assert len(world.image.topics_by_name["t"]) == 5
    assert not grow(world, "t", 6, [[3, 1]]).error_code
    assert world.partition("t", 5).replicas == (3, 1)


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("nope", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 0, None, ErrorCode.INVALID_PARTITIONS),
        ("t", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 2, [[1, 2, 3]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 2, [[1, 9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    world: World, name: str, count: int, assignments: Any, code: ErrorCode
) -> None:
    world.create("t", [[1, 2]])
    answer = grow(world, name, count, assignments)
    assert ErrorCode(answer.error_code) is code and answer.error_message


# -- deletion --------------------------------------------------------------------------------------


def delete(world: World, version: int = 6, **given: Any) -> Any:
    return world.ask(DeleteTopicsRequest(topics=[DeleteTopicState(**given)]), version).responses[0]


def test_topics_go_by_name_and_by_id_with_their_configuration(world: World) -> None:
    world.create("a", [[1]], configs={"retention.ms": "1"})
    topic_id = world.create("b", [[1]]).topic_id
    assert not delete(world, name="a").error_code
    answer = delete(world, name=None, topic_id=topic_id)
    assert answer.name == "b" and not answer.error_code
    assert not world.image.topics_by_name and (2, "a") not in world.image.configs
    assert not list(world.image.partitions_of(1))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"name": "no"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"name": None, "topic_id": uuid(5)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"name": "a", "topic_id": uuid(5)}, ErrorCode.INVALID_REQUEST),
        ({"name": None}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_topic_that_cannot_be_deleted_is_refused(
    world: World, given: dict[str, Any], code: ErrorCode
) -> None:
    world.create("a", [[1]])
    assert ErrorCode(delete(world, **given).error_code) is code


def deleted(world: World, *asked: dict[str, Any]) -> list[tuple[str | None, Any, str]]:
    """(name, id, code) of every answer."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(**given) for given in asked])
    answers = world.ask(request).responses
    return [(r.name, r.topic_id, ErrorCode(r.error_code).name) for r in answers]


def test_a_topic_named_twice_is_not_deleted_and_answered_once(world: World) -> None:
    a, b, c, d = (world.create(name, [[1]]).topic_id for name in "abcd")
    by_name = [{"name": n} for n in ("a", "no", "b", "a", "no")]
    assert deleted(world, *by_name) == [
        ("a", ZERO_UUID, "INVALID_REQUEST"),
        ("no", ZERO_UUID, "INVALID_REQUEST"),
        ("b", b, "NONE"),
    ]
    assert deleted(
        world, *[{"name": None, "topic_id": i} for i in (a, c, a, uuid(5), uuid(5))]
    ) == [
        (None, a, "INVALID_REQUEST"),
        ("c", c, "NONE"),
        (None, uuid(5), "INVALID_REQUEST"),
    ]
    twice: list[dict[str, Any]] = [{"name": None, "topic_id": a}, {"name": "a"}, {"name": "d"}]
    expected = [("a", a, "INVALID_REQUEST"), ("d", d, "NONE")]
    assert deleted(world, *twice) == expected
    assert deleted(world, {"name": "a"}, {"name": "a"}, {"name": None, "topic_id": a}) == [
        ("a", ZERO_UUID, "INVALID_REQUEST")
    ]
    assert set(world.image.topics_by_name) == {"a"}


def test_a_topic_named_twice_in_a_large_request_is_not_deleted(world: World) -> None:
    world.create("a", [[1]])
    names = ["a", *(f"no{i}" for i in range(300)), "a"]
    answers = deleted(world, *({"name": name} for name in names))
    assert answers[0] == ("a", ZERO_UUID, "INVALID_REQUEST") and len(answers) == 301
    assert "a" in world.image.topics_by_name


def test_old_versions_name_topics_only(world: World) -> None:
    world.create("a", [[1]])
    answer = world.ask(DeleteTopicsRequest(topic_names=["a", "b"]), 5)
    assert [r.error_code for r in answer.responses] == [0, 3]
    world.create("a", [[1]])
    answer = world.ask(DeleteTopicsRequest(topic_names=["a", "b", "a"]), 5)
    assert [r.error_code for r in answer.responses] == [42, 3]
    assert "a" in world.image.topics_by_name


def test_deletion_may_be_switched_off() -> None:
    world = World({"delete.topic.enable": "false"})
    assert delete(world, name="a").error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert delete(world, 2, name="a").error_code == ErrorCode.INVALID_REQUEST


def test_a_large_creation_is_decided_in_slices_and_written_as_one_batch() -> None:
    world = World()
    world.join(1, 2, 3)
    before = len(world.quorum.batches)
    asked = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=f"t{i}", num_partitions=400, replication_factor=3) for i in range(5)
        ]
    )
    answer = world.start(asked)
    assert isinstance(answer, Parked)
    assert len(world.quorum.batches) == before, "nothing is written before all is decided"
    for _ in range(2):
        world.ports.wakeups.soon.pop(0)()
    # Another request takes one of the names between two slices: all is decided again.
    sooner = CreatableTopic(name="t3", num_partitions=1, replication_factor=1)
    world.start(CreateTopicsRequest(topics=[sooner]))
    box: list[Any] = []
    answer.attach(box.append)
    world.settle()
    codes = {topic.name: ErrorCode(topic.error_code) for topic in box[0].topics}
    assert codes.pop("t3") is ErrorCode.TOPIC_ALREADY_EXISTS
    assert set(codes.values()) == {ErrorCode.NONE}
    sizes = [len(batch.values) for batch in world.quorum.batches[before:]]
    assert sizes.count(4 * 401) == 1, sizes


def test_partitions_are_added_to_the_topic_that_is_there_when_all_are_decided() -> None:
    world = World()
    world.join(1, 2)
    world.create("t", [[1], [2]])
    box: list[Any] = []
    more = CreatePartitionsTopic(name="t", count=1002, assignments=None)
    world.start(CreatePartitionsRequest(topics=[more])).attach(box.append)
    world.ports.wakeups.soon.pop(0)()
    # Between two slices the topic goes, and one of the same name and size comes.
    world.start(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
    again = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    world.start(CreateTopicsRequest(topics=[again]))
    world.settle()
    assert not box[0].results[0].error_code
    assert len(world.image.topics_by_name["t"]) == 1002


@pytest.mark.slow
def test_more_than_ten_thousand_records_are_refused_as_a_whole() -> None:
    world = World()
    world.join(1, 2, 3)
    topics = [
        CreatableTopic(name=f"t{i}", num_partitions=3000, replication_factor=1) for i in range(4)
    ]
    answer = world.ask(CreateTopicsRequest(topics=topics))
    assert {ErrorCode(t.error_code) for t in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert not world.image.topics_by_name
    assert any(note.code == "POLICY_VIOLATION" for note in world.controller.refusals.since())
