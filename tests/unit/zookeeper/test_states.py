"""States of partitions and replicas by name and with reasons, and the steps of creation and deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.partition_states import NEW, NON_EXISTENT, OFFLINE, ONLINE
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import Uuid
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.zookeeper.operations import Create, Multi
from barnabas.zookeeper.states.moves import (
    DELETION_INELIGIBLE,
    DELETION_STARTED,
    DELETION_SUCCESSFUL,
    PARTITION_MOVES,
    REPLICA_MOVES,
    may_move,
)
from barnabas.zookeeper.states.state_book import StateBook
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster()
    yield made
    for node in made.nodes.values():
        assert node.controller is not None
        node.controller.steps.book.validate()
    made.world.let_go()


def told(cluster: ZookeeperCluster, broker: int, topic: str) -> list[tuple[str, str]]:
    """Subject without its index, and change, of a topic's events."""
    asked = DescribeClusterRequest(events_after=-1)
    events = cluster.ask(broker, asked).events
    return [(one.kind, one.change) for one in events if one.subject.split("-")[0] == topic]


def states(cluster: ZookeeperCluster, broker: int, topic: str) -> dict[tuple[int, int], str]:
    """By index and broker; -1 is the partition's own."""
    response = cluster.ask(broker, DescribeClusterRequest(states_of=[topic]))
    return {(one.partition, one.replica): one.state for one in response.states}


def delete(cluster: ZookeeperCluster, broker: int, topic: str) -> int:
    topics = [DeleteTopicState(name=topic)]
    request = DeleteTopicsRequest(topics=topics, topic_names=[topic], timeout_ms=10_000)
    return int(cluster.ask(broker, request).responses[0].error_code)


def in_order(events: Sequence[tuple[str, str]], *beginnings: str) -> None:
    """Each text begins an event, in that order."""
    left = iter(events)
    for beginning in beginnings:
        assert any(change.startswith(beginning) for _, change in left), (beginning, events)


@pytest.mark.parametrize(
    ("table", "states"),
    [(PARTITION_MOVES, 4), (REPLICA_MOVES, 7)],
)
def test_every_state_can_be_reached_and_left(table: Any, states: int) -> None:
    assert len(table) == states
    sources = {before for allowed in table.values() for before in allowed}
    assert sources == set(table)


def test_a_replica_is_deleted_from_offline_alone() -> None:
    assert [one for one in REPLICA_MOVES if may_move(REPLICA_MOVES, one, DELETION_STARTED)] == [
        OFFLINE
    ]
    assert not may_move(REPLICA_MOVES, DELETION_STARTED, ONLINE)
    assert not may_move(PARTITION_MOVES, ONLINE, NON_EXISTENT)


def test_a_replica_that_was_offline_from_the_beginning_can_leave() -> None:
    """Its broker was not registered when this controller began, and is when StopReplica goes to it."""
    cluster = ZookeeperCluster()
    image, topic_id = MetadataImage(track_changes=False), Uuid(bytes(15) + b"\x2a")
    image.replay(TopicRecord(name="t", topic_id=topic_id))
    assigned: Any = {"partition_id": 0, "topic_id": topic_id}
    image.replay(PartitionRecord(**assigned, replicas=[1, 3], isr=[1], leader=1))
    book = StateBook(cluster.processes[1], image)
    book.begin(2, alive=[1])
    leaving = [("t", 0, 3)]
    assert book.replica(*leaving[0]).state == OFFLINE
    book.move_replicas(leaving, OFFLINE, "it leaves", are_leaving=True)
    image.replay(PartitionChangeRecord(**assigned, replicas=[1]))
    book.delete_replicas(leaving, "StopReplica goes to broker 3")
    book.on_deleted(3, [("t", 0)])
    book.validate()
    assert book.replica(*leaving[0]).state == NON_EXISTENT
    cluster.world.let_go()


def test_a_move_that_no_table_has_is_found() -> None:
    cluster = ZookeeperCluster()
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    known = cluster.nodes[controller].controller
    assert known is not None
    book = known.steps.book
    book.validate()
    book.move_replicas([("t", 0, 1)], DELETION_SUCCESSFUL, "a planted bug")
    with pytest.raises(AssertionError, match=r"moves that no table has: .*t-0 on broker 1"):
        book.validate()
    cluster.world.let_go()


def test_each_step_of_a_creation_is_an_event(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller, partitions=1) == 0
    cluster.wait(
        lambda: set(states(cluster, controller, "t").values()) == {ONLINE}, "every replica Online"
    )
    in_order(
        told(cluster, controller, "t"),
        "assignment chosen: partition 0 on ",
        "live brokers: 1,2,3",
        "leader and ISR chosen: partition 0 led by ",
        "assignment written: /brokers/topics/t",
        f"{NON_EXISTENT} → {NEW}",
        "state written: leader ",
        f"{NEW} → {ONLINE}",
        "LeaderAndIsr sent to broker ",
        "replica on broker ",
    )


def test_a_topic_that_another_tool_made_is_found_by_a_watch(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    data = b'{"version":1,"partitions":{"0":[1,2]}}'
    cluster.znode(Multi((Create("/brokers/topics/t", data),)))
    cluster.wait(lambda: (0, -1) in states(cluster, controller, "t"), "the topic")
    in_order(
        told(cluster, controller, "t"),
        "found by the watch of /brokers/topics",
        "leader and ISR chosen",
        "state written",
    )


def test_a_deletion_waits_for_a_dead_broker_and_says_so(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    victim = next(broker for broker in cluster.nodes if broker != controller)
    cluster.wait(
        lambda: set(states(cluster, controller, "t").values()) == {ONLINE}, "every replica Online"
    )
    cluster.kill(victim)
    cluster.wait(lambda: states(cluster, controller, "t")[0, victim] == OFFLINE, "it is Offline")
    assert delete(cluster, controller, "t") == 0
    cluster.wait(
        lambda: states(cluster, controller, "t")[0, controller] == DELETION_SUCCESSFUL,
        "a deletion that succeeded",
    )
    found = states(cluster, controller, "t")
    assert found[0, victim] == DELETION_INELIGIBLE and found[0, -1] == OFFLINE
    response = cluster.ask(controller, DescribeClusterRequest(states_of=["t"]))
    reasons = {one.replica: one.reason for one in response.states}
    assert reasons[victim] == f"broker {victim} is not alive; it is asked when it returns"
    cluster.start(victim)
    cluster.wait(lambda: not states(cluster, controller, "t"), "the topic is gone")
    in_order(
        told(cluster, controller, "t"),
        "deletion decided",
        "written: /admin/delete_topics/t",
        f"{ONLINE} → {OFFLINE}",
        "StopReplica sent to broker ",
        f"replica on broker {victim}: {DELETION_INELIGIBLE} → {OFFLINE}",
        f"replica on broker {victim}: {OFFLINE} → {DELETION_STARTED}",
        f"StopReplica sent to broker {victim}",
        f"replica on broker {victim}: {DELETION_STARTED} → {DELETION_SUCCESSFUL}",
        "znodes gone: /brokers/topics/t",
        f"{OFFLINE} → {NON_EXISTENT}",
    )


def test_the_next_controller_tells_what_it_found(cluster: ZookeeperCluster) -> None:
    former = cluster.wait_for_controller()
    assert cluster.create("t", former) == 0
    cluster.kill(former)
    controller = cluster.wait_for_controller(former)
    cluster.wait(lambda: states(cluster, controller, "t")[0, former] == OFFLINE, "it is Offline")
    asked = DescribeClusterRequest(events_after=-1)
    events = cluster.ask(controller, asked).events
    assert [one.change for one in events if one.kind == "controller"] == ["elected in epoch 2"]
    after = events[-1].number
    again = cluster.ask(controller, DescribeClusterRequest(events_after=after)).events
    assert not again


@pytest.mark.slow
def test_a_broker_reports_no_steps_unasked(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    response = cluster.ask(controller, DescribeClusterRequest())
    assert not response.events and not response.states and not response.refusals
