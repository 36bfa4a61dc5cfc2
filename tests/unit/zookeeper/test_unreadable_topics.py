"""A topic whose znodes cannot be read: it alone suffers, and is whole again when they are mended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.zookeeper.layout.config_znodes import CONFIG
from barnabas.zookeeper.layout.topic_znodes import state_path, topic_path
from barnabas.zookeeper.operations import Create, Delete, GetData, SetData
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

pytestmark = pytest.mark.slow
NO_JSON, NO_FIELDS = b"{", b'{"version":3}'


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster()
    yield made
    made.world.let_go()


def next_controller(cluster: ZookeeperCluster) -> int:
    """After the present one's death, which is started again."""
    former = cluster.wait_for_controller()
    cluster.kill(former)
    found = cluster.wait_for_controller(former)
    cluster.start(former)
    cluster.wait(lambda: cluster.nodes[former].is_ready, "it is back")
    return found


def left_out(cluster: ZookeeperCluster, controller: int) -> dict[str, str]:
    role = cluster.nodes[controller].controller
    assert role is not None
    return role.unreadable.describe()


@pytest.mark.parametrize("damage", [NO_JSON, NO_FIELDS])
@pytest.mark.parametrize("path", [state_path("t", 0), topic_path("t")])
def test_all_other_topics_are_served(cluster: ZookeeperCluster, path: str, damage: bytes) -> None:
    controller = cluster.wait_for_controller()
    for topic in ("t", "u"):
        assert cluster.create(topic, controller) == 0
    assert cluster.produce("t", cluster.state("t")["leader"], b"before") == 0
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR")
    leader = cluster.state("t")["leader"]
    sound = cluster.znode(GetData(path)).data
    cluster.znode(SetData(path, damage))

    controller = next_controller(cluster)
    epoch = cluster.epoch_of(controller)
    assert list(left_out(cluster, controller)) == ["t"]
    assert cluster.create("v", controller) == 0
    assert cluster.create("t", controller) == ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.wait(lambda: len(cluster.state("u")["isr"]) == 3, "the other's ISR")
    for broker, node in cluster.nodes.items():  # also of the one that has started meanwhile
        assert node.broker is not None
        names = [str(name) for name in node.broker.logs.logs]
        assert "t-0" in names, f"broker {broker} has given its log up: {names}"
    assert cluster.controller == controller and cluster.epoch_of(controller) == epoch

    cluster.znode(SetData(path, sound))
    cluster.wait(
        lambda: cluster.controller != -1 and not left_out(cluster, cluster.controller),
        "it is read again",
    )
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR again")
    cluster.wait(lambda: cluster.produce("t", cluster.state("t")["leader"]) == 0, "a record")
    replica = cluster.broker_of(leader).replicas.by_name["t", 0]
    assert replica.log is not None and replica.log.log_start_offset == 0
    assert replica.log.log_end_offset == 2


def test_a_topic_that_a_tool_makes_wrongly_can_be_mended(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.znode(Create(topic_path("t"), b'{"version":1,"partitions":{"0":"1"}}'))
    cluster.wait(lambda: "t" in left_out(cluster, controller), "it is left out")
    assert cluster.create("u", controller) == 0
    cluster.znode(Create("/admin/delete_topics/t"))
    cluster.pass_time(500)
    assert cluster.children("/admin/delete_topics") == ["t"]  # until it can be read
    cluster.znode(Delete("/admin/delete_topics/t"))
    cluster.znode(SetData(topic_path("t"), b'{"version":1,"partitions":{"0":[1,2]}}'))
    cluster.wait(lambda: bool(cluster.children(topic_path("t"))), "its partitions")
    cluster.wait(lambda: cluster.read(state_path("t", 0)) is not None, "its state")
    assert cluster.state("t")["isr"] == [1, 2]


def test_a_topic_whose_znodes_are_removed_can_be_made_again(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.znode(Create(topic_path("t"), NO_JSON))
    cluster.wait(lambda: "t" in left_out(cluster, controller), "it is left out")
    cluster.znode(Delete(topic_path("t")))
    cluster.wait(
        lambda: cluster.controller != -1 and not left_out(cluster, cluster.controller), "it is gone"
    )
    cluster.wait(lambda: cluster.create("t", cluster.controller) == 0, "it is made")


def test_an_unreadable_configuration_or_registration_ends_no_leadership(
    cluster: ZookeeperCluster,
) -> None:
    cluster.create("t", cluster.wait_for_controller())
    for path in (f"{CONFIG}/topics/t", f"{CONFIG}/clients/c", "/brokers/ids/77"):
        cluster.znode(Create(path, b""))
        cluster.znode(SetData(path, NO_JSON))
    controller = next_controller(cluster)
    epoch = cluster.epoch_of(controller)
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR")
    assert cluster.create("u", controller) == 0
    assert cluster.epoch_of(controller) == epoch


def test_unreadable_producer_ids_are_not_given_out_twice(cluster: ZookeeperCluster) -> None:
    cluster.create("t", cluster.wait_for_controller())
    cluster.znode(SetData("/latest_producer_id_block", NO_JSON))
    cluster.kill(cluster.controller)
    cluster.pass_time(5_000)
    assert cluster.controller == -1
