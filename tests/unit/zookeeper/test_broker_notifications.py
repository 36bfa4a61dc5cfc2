"""ISRs that leaders write themselves, and failed log directories, as brokers tell them by znodes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.zookeeper.layout.request_znodes import (
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    IsrChangeZnode,
    LogDirEventZnode,
)
from barnabas.zookeeper.layout.topic_znodes import state_path
from barnabas.zookeeper.operations import Create, GetData, SetData
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

TWO_DIRECTORIES = "/one,/two"


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster(log_dirs=TWO_DIRECTORIES)
    yield made
    made.world.let_go()


def placed_in(cluster: ZookeeperCluster, broker: int, directory: str, topic: str) -> list[int]:
    """Partitions of `topic` whose replica on the broker is in that directory."""
    found = cluster.nodes[broker].broker
    assert found is not None
    home = next(d for d in found.logs.directories if d.path == directory)
    return sorted(one.partition for one in home.logs if one.topic == topic)


def spread(cluster: ZookeeperCluster, broker: int) -> None:
    """Make a topic of six partitions with replicas in both directories of the broker."""
    assert cluster.create("t", cluster.controller, partitions=6) == 0
    cluster.wait(
        lambda: sum(len(placed_in(cluster, broker, d, "t")) for d in ("/one", "/two")) == 6, "logs"
    )


def lose(cluster: ZookeeperCluster, broker: int, directory: str, topic: str = "t") -> list[int]:
    """The directory fails with the next write to it; the partitions that were in it."""
    gone = placed_in(cluster, broker, directory, topic)
    node = cluster.nodes[broker].broker
    assert node is not None and gone
    home = next(d for d in node.logs.directories if d.path == directory)
    node.logs.fail(home, "a test took it")
    return gone


def leaders(cluster: ZookeeperCluster, topic: str, partitions: int) -> set[int]:
    return {cluster.state(topic, index)["leader"] for index in range(partitions)}


def test_a_failed_log_directory_takes_its_replicas_alone_offline(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    victim = next(b for b in cluster.nodes if b != controller)
    spread(cluster, victim)
    gone = lose(cluster, victim, "/two")
    kept = [index for index in range(6) if index not in gone]
    assert kept
    cluster.wait(
        lambda: all(victim not in cluster.state("t", index)["isr"] for index in gone),
        "its offline replicas are out of the ISRs",
    )
    assert victim not in {cluster.state("t", index)["leader"] for index in gone}
    assert all(victim in cluster.state("t", index)["isr"] for index in kept)
    assert cluster.nodes[victim].is_ready
    cluster.wait(lambda: cluster.children(LOG_DIR_EVENTS) == [], "its notification is deleted")
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    told = cluster.ask(controller, asked).topics[0].partitions
    offline = {one.partition_index: list(one.offline_replicas) for one in told}
    assert offline == {index: [victim] if index in gone else [] for index in range(6)}


@pytest.mark.slow
def test_the_next_controller_asks_which_replicas_are_offline(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    victim = next(b for b in cluster.nodes if b != controller)
    spread(cluster, victim)
    gone = lose(cluster, victim, "/two")
    cluster.wait(
        lambda: all(victim not in cluster.state("t", index)["isr"] for index in gone), "ISRs"
    )
    cluster.kill(controller)
    new = cluster.wait_for_controller(controller)
    role = cluster.nodes[new].controller
    assert role is not None
    cluster.wait(lambda: len(role.notifications.describe()) == len(gone), "offline replicas")
    cluster.start(controller)
    cluster.wait(lambda: all(len(cluster.state("t", i)["isr"]) == 2 for i in gone), "ISRs of two")
    assert victim not in {cluster.state("t", index)["leader"] for index in gone}


@pytest.mark.slow
def test_no_empty_log_replaces_one_in_a_directory_that_is_offline(
    cluster: ZookeeperCluster,
) -> None:
    controller = cluster.wait_for_controller()
    victim = next(b for b in cluster.nodes if b != controller)
    spread(cluster, victim)
    gone = placed_in(cluster, victim, "/two", "t")
    cluster.kill(victim)
    cluster.machines[f"n{victim}"].disk.fail_call(1, prefix="/two", for_good=True)
    cluster.start(victim)
    cluster.wait(lambda: cluster.nodes[victim].is_ready, "the broker is back")
    cluster.wait(
        lambda: all(victim in cluster.state("t", i)["isr"] for i in range(6) if i not in gone),
        "ISRs",
    )
    assert all(victim not in cluster.state("t", index)["isr"] for index in gone)
    assert (
        cluster.create("u", controller, partitions=6) == 0
    )  # new replicas go to the other directory
    cluster.wait(lambda: placed_in(cluster, victim, "/one", "u") == list(range(6)), "logs")


@pytest.mark.slow
def test_a_topic_is_not_gone_while_a_replica_is_offline(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    victim = next(b for b in cluster.nodes if b != controller)
    spread(cluster, victim)
    lose(cluster, victim, "/two")
    cluster.pass_time(500)
    assert cluster.delete("t", controller) == 0
    cluster.pass_time(2_000)
    assert cluster.read("/brokers/topics/t") is not None
    assert cluster.create("t", controller) == ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.kill(victim)
    cluster.start(victim)  # with its directory, which is well
    cluster.wait(lambda: cluster.read("/brokers/topics/t") is None, "the topic is gone")


def test_an_isr_that_a_leader_wrote_is_taken_over(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    path = state_path("t", 0)
    found = cluster.znode(GetData(path))
    state = json.loads(found.data)
    state["isr"] = state["isr"][:2]
    cluster.znode(SetData(path, json.dumps(state).encode(), found.stat.version))
    change = IsrChangeZnode((("t", 0),))
    cluster.znode(Create(change.path, change.encode(), sequential=True))
    cluster.wait(lambda: cluster.children(ISR_CHANGES) == [], "the notification is followed")
    role = cluster.nodes[controller].controller
    assert role is not None
    topic = role.decider.image.topics_by_name["t"]
    cluster.wait(lambda: list(topic.isr[0]) == state["isr"], "the controller's ISR")
    assert topic.partition_epoch[0] >= found.stat.version + 1
    epoch = cluster.epoch_of(controller)
    other = next(b for b in cluster.nodes if b != controller)
    cluster.kill(other)  # what the controller writes next is of the right version
    cluster.wait(lambda: other not in cluster.state("t")["isr"], "a smaller ISR")
    assert cluster.controller == controller and cluster.epoch_of(controller) == epoch


def test_an_unreadable_notification_is_removed(cluster: ZookeeperCluster) -> None:
    cluster.wait_for_controller()
    for folder in (ISR_CHANGES, LOG_DIR_EVENTS):
        cluster.znode(Create(f"{folder}/x_", b"{", sequential=True))
        cluster.wait(lambda: cluster.children(folder) == [], "it is removed")  # noqa: B023
    event = LogDirEventZnode(99)
    cluster.znode(Create(event.path, event.encode(), sequential=True))
    cluster.wait(lambda: cluster.children(LOG_DIR_EVENTS) == [], "of an unknown broker, too")


def test_an_unreadable_state_znode_is_logged_and_the_broker_lives(
    cluster: ZookeeperCluster,
) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    isr = cluster.state("t")["isr"]
    cluster.znode(SetData(state_path("t", 0), b'{"version":1}', -1))
    change = IsrChangeZnode((("t", 0),))
    cluster.znode(Create(change.path, change.encode(), sequential=True))
    lines = cluster.processes[controller].log_lines
    cluster.wait(
        lambda: any("zookeeper.znode_unreadable" in x and state_path("t", 0) in x for x in lines),
        "the znode is logged",
    )
    cluster.wait(lambda: cluster.children(ISR_CHANGES) == [], "the notification is deleted")
    assert cluster.controller == controller
    role = cluster.nodes[controller].controller
    assert role is not None
    assert list(role.decider.image.topics_by_name["t"].isr[0]) == isr
    assert cluster.create("u", controller) == ErrorCode.NONE


def test_a_leader_epoch_is_raised_where_the_controller_shrinks_an_isr(
    cluster: ZookeeperCluster,
) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    before = cluster.state("t")
    follower = next(b for b in cluster.nodes if b not in (controller, before["leader"]))
    cluster.kill(follower)
    cluster.wait(lambda: follower not in cluster.state("t")["isr"], "a smaller ISR")
    after = cluster.state("t")
    assert after["leader"] == before["leader"]
    assert after["leader_epoch"] == before["leader_epoch"] + 1
