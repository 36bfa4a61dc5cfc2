"""Topics of before Kafka 2.8, in whose znodes and logs no id is: the controller gives them one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.log.file_names import PARTITION_METADATA
from barnabas.wire.errors import ErrorCode
from barnabas.zookeeper.layout.topic_znodes import (
    TopicZnode,
    partition_path,
    state_path,
    topic_path,
)
from barnabas.zookeeper.operations import Create, Delete, GetData, SetData
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

pytestmark = pytest.mark.slow
OF_KAFKA_2_3 = b'{"version":1,"partitions":{"0":[1,2,3]}}'
OF_KAFKA_2_7 = (
    b'{"version":2,"partitions":{"0":[1,2,3]},"adding_replicas":{},"removing_replicas":{}}'
)
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2,3]}'


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster()
    yield made
    made.world.let_go()


def stop(cluster: ZookeeperCluster, *, cleanly: bool = True) -> None:
    """All brokers."""
    for broker in list(cluster.nodes):
        cluster.stop(broker) if cleanly else cluster.kill(broker)


def start(cluster: ZookeeperCluster) -> None:
    for broker in (1, 2, 3):
        cluster.start(broker)
    cluster.wait(lambda: all(n.is_ready for n in cluster.nodes.values()), "brokers are ready")


def make_old(cluster: ZookeeperCluster, topic: str, znode: bytes) -> None:
    """As brokers of before topic ids leave it: neither the znode nor a log has one."""
    assert not hasattr(cluster.znode(SetData(topic_path(topic), znode)), "path")
    remove_ids_of_logs(cluster, topic)


def remove_ids_of_logs(cluster: ZookeeperCluster, topic: str) -> None:
    for broker in (1, 2, 3):
        names = cluster.machines[f"n{broker}"].disk.names
        del names[f"/data/{topic}-0/{PARTITION_METADATA}"]


def assert_no_log_is_astray(cluster: ZookeeperCluster) -> None:
    for broker in (1, 2, 3):
        names = cluster.machines[f"n{broker}"].disk.names
        assert not [name for name in names if "-stray" in name]


def id_of(cluster: ZookeeperCluster, topic: str) -> TopicZnode:
    path = topic_path(topic)
    return TopicZnode.decode(path, cluster.znode(GetData(path)).data)


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("znode", [OF_KAFKA_2_3, OF_KAFKA_2_7])
def test_old_topics_get_an_id_and_keep_their_records(
    cluster: ZookeeperCluster, znode: bytes, cleanly: bool
) -> None:
    """Also where the brokers died before any of it was synced: no log of a broker has an id."""
    controller = cluster.wait_for_controller()
    for topic in ("t", "u"):
        assert cluster.create(topic, controller) == 0
        assert cluster.produce(topic, cluster.state(topic)["leader"], b"before") == 0
        cluster.wait(lambda: len(cluster.state(topic)["isr"]) == 3, "its ISR")  # noqa: B023
    former = id_of(cluster, "t").topic_id
    stop(cluster, cleanly=cleanly)
    for topic in ("t", "u"):
        make_old(cluster, topic, znode)
    start(cluster)
    cluster.wait_for_controller()
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR again")
    cluster.wait(lambda: cluster.produce("t", cluster.state("t")["leader"]) == 0, "a record")
    written = id_of(cluster, "t")
    assert written.version == 3 and written.topic_id not in (None, former)
    assert written.topic_id != id_of(cluster, "u").topic_id
    for broker in (1, 2, 3):
        replica = cluster.broker_of(broker).replicas.by_name["t", 0]
        log = replica.log
        assert replica.topic_id == written.topic_id
        assert log is not None and log.topic_id == written.topic_id
        cluster.wait(lambda: log.log_end_offset == 2, "both records")  # noqa: B023
        names = cluster.machines[f"n{broker}"].disk.names
        assert f"/data/t-0/{PARTITION_METADATA}" in names
    assert_no_log_is_astray(cluster)


def test_a_second_crash_while_old_topics_get_their_ids_loses_no_log(
    cluster: ZookeeperCluster,
) -> None:
    """The second crash comes when only some logs have their ids, and no sync was due."""
    controller = cluster.wait_for_controller()
    for topic in ("t", "u"):
        assert cluster.create(topic, controller) == 0
        assert cluster.produce(topic, cluster.state(topic)["leader"], b"before") == 0
        cluster.wait(lambda: len(cluster.state(topic)["isr"]) == 3, "its ISR")  # noqa: B023
    stop(cluster, cleanly=False)
    for topic in ("t", "u"):
        make_old(cluster, topic, OF_KAFKA_2_7)
    start(cluster)
    cluster.wait_for_controller()
    cluster.wait(lambda: id_of(cluster, "t").topic_id is not None, "its id")
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR again")
    stop(cluster, cleanly=False)
    remove_ids_of_logs(cluster, "t")
    start(cluster)
    cluster.wait_for_controller()
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR after the second crash")
    for broker in (1, 2, 3):
        log = cluster.broker_of(broker).replicas.by_name["t", 0].log
        assert log is not None and log.topic_id == id_of(cluster, "t").topic_id
        assert log.log_end_offset == 1
    assert_no_log_is_astray(cluster)


def test_a_topic_that_an_old_controller_has_made_is_served(cluster: ZookeeperCluster) -> None:
    """Its states are there, so that no partition of it is new."""
    former = cluster.wait_for_controller()
    cluster.kill(former)
    for path, data in (
        (topic_path("t"), OF_KAFKA_2_7),
        (f"{topic_path('t')}/partitions", b""),
        (partition_path("t", 0), b""),
        (state_path("t", 0), STATE),
    ):
        cluster.znode(Create(path, data))
    controller = cluster.wait_for_controller()
    cluster.start(former)
    cluster.wait(lambda: id_of(cluster, "t").topic_id is not None, "its id")
    cluster.wait(lambda: cluster.produce("t", cluster.state("t")["leader"]) == 0, "a record")
    assert cluster.create("t", controller) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert cluster.state("t")["leader_epoch"] >= 7


def test_an_old_topic_can_be_deleted(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    stop(cluster)
    make_old(cluster, "t", OF_KAFKA_2_3)
    cluster.znode(Create("/admin/delete_topics/t"))
    start(cluster)
    cluster.wait(lambda: cluster.children("/brokers/topics") == [], "it is gone")
    cluster.wait(lambda: cluster.children("/admin/delete_topics") == [], "the request, too")


def test_a_new_replica_takes_no_log_of_before_topic_ids(cluster: ZookeeperCluster) -> None:
    """A log that is found where a replica is new is an earlier topic's."""
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    assert cluster.produce("t", cluster.state("t")["leader"], b"of the first") == 0
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR")
    stop(cluster)
    make_old(cluster, "t", OF_KAFKA_2_3)
    for path in (state_path("t", 0), partition_path("t", 0), f"{topic_path('t')}/partitions"):
        cluster.znode(Delete(path))
    start(cluster)
    cluster.wait(lambda: len(cluster.children(topic_path("t"))) > 0, "it is made")
    cluster.wait(lambda: cluster.produce("t", cluster.state("t")["leader"]) == 0, "a record")
    for broker in (1, 2, 3):
        log = cluster.broker_of(broker).replicas.by_name["t", 0].log
        assert log is not None
        cluster.wait(lambda: log.log_end_offset == 1, "its record alone")  # noqa: B023
