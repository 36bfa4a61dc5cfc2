"""Brokers on the twin of an ensemble: elections, expiry, absence, deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.network.channels import ChannelError
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.kafka39.leader_and_isr_request import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.kafka39.update_metadata_request import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.zookeeper.operations import Create, Delete, Multi, SetData
from tests.unit.zookeeper.zookeeper_cluster import SESSION_MS, ZookeeperCluster


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster()
    yield made
    made.world.let_go()


def other_than(cluster: ZookeeperCluster, broker: int) -> int:
    return next(b for b in cluster.nodes if b != broker)


def in_sync(cluster: ZookeeperCluster, topic: str, size: int = 3) -> bool:
    return len(cluster.state(topic)["isr"]) == size


@pytest.mark.slow
def test_any_broker_takes_a_topic_for_the_controller(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    assert cluster.create("t", other_than(cluster, controller), partitions=2) == 0
    assert cluster.state("t", 1)["controller_epoch"] == 1
    assert cluster.create("t", controller) == 36  # TOPIC_ALREADY_EXISTS
    leader = cluster.state("t")["leader"]
    cluster.wait(lambda: cluster.produce("t", leader) == 0, "a record is acknowledged")


@pytest.mark.slow
def test_a_killed_controller_is_replaced_before_its_session_ends(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    began = cluster.world.now_ms
    cluster.kill(controller)
    new = cluster.wait_for_controller(controller)
    assert cluster.create("u", new, replicas=2) == 0
    assert cluster.world.now_ms - began < SESSION_MS / 2
    assert cluster.epoch_of(new) == 2
    cluster.wait(lambda: cluster.state("t")["leader"] in cluster.nodes, "a live leader")


@pytest.mark.slow
def test_a_killed_leader_is_replaced_and_returns_to_the_isr(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller, partitions=3)
    victim = other_than(cluster, controller)
    index = next(i for i in range(3) if cluster.state("t", i)["leader"] == victim)
    epoch = cluster.state("t", index)["leader_epoch"]
    cluster.kill(victim)
    cluster.wait(lambda: cluster.state("t", index)["leader"] != victim, "another leader")
    assert cluster.state("t", index)["leader_epoch"] == epoch + 1
    assert victim not in cluster.state("t", index)["isr"]
    cluster.start(victim)  # its former registration is there still
    cluster.wait(lambda: victim in cluster.state("t", index)["isr"], "its return to the ISR")


def test_a_controller_whose_session_expires_stops_deciding(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    epoch = cluster.epoch_of(controller)
    registered = cluster.nodes[controller].broker
    assert registered is not None
    before = registered.lifecycle.broker_epoch
    cluster.ensemble.expire(cluster.nodes[controller].sessions.id)
    cluster.wait(
        lambda: cluster.controller != -1 and cluster.epoch_of(cluster.controller) > epoch,
        "a later controller epoch",
    )
    cluster.wait(lambda: registered.lifecycle.broker_epoch > before, "a new registration")
    cluster.wait(lambda: cluster.create("t", cluster.controller) == 0, "a topic")
    cluster.wait(lambda: in_sync(cluster, "t"), "all replicas in sync")


@pytest.mark.slow
def test_a_former_controllers_write_changes_nothing(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    node = cluster.nodes[controller]
    another = Create("/controller", b'{"version":2,"brokerid":9,"timestamp":"0"}')
    cluster.znode(Multi((Delete("/controller"), another, SetData("/controller_epoch", b"7"))))
    assert cluster.create("t", controller) in (7, 41)  # REQUEST_TIMED_OUT, NOT_CONTROLLER
    assert not node.is_controller
    assert cluster.read("/brokers/topics/t") is None


@pytest.mark.slow
def test_an_ensemble_that_is_away_longer_than_sessions_is_survived(
    cluster: ZookeeperCluster,
) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    leader = cluster.state("t")["leader"]
    cluster.wait(lambda: cluster.produce("t", leader) == 0, "a record before")
    for server in cluster.ensemble.servers:
        server.kill()
    cluster.pass_time(3 * SESSION_MS)
    assert cluster.produce("t", leader, b"meanwhile") == 0
    for server in cluster.ensemble.servers:
        server.start()
    cluster.wait_for_controller()
    cluster.wait(lambda: len(cluster.children("/brokers/ids")) == 3, "all register again")
    cluster.wait(lambda: cluster.create("u", cluster.wait_for_controller()) == 0, "a topic after")
    cluster.wait(lambda: in_sync(cluster, "t") and in_sync(cluster, "u"), "all in sync")
    leader = cluster.state("t")["leader"]
    cluster.wait(lambda: cluster.produce("t", leader, b"after") == 0, "a record after")


@pytest.mark.slow
def test_a_topic_waits_for_its_last_replica_before_it_is_gone(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    down = other_than(cluster, controller)
    cluster.kill(down)
    cluster.wait(lambda: down not in cluster.state("t")["isr"], "it is fenced")
    assert cluster.delete("t", controller) == 0
    cluster.pass_time(2_000)
    assert cluster.children("/admin/delete_topics") == ["t"]
    assert cluster.create("t", controller) == 36  # TOPIC_ALREADY_EXISTS
    cluster.start(down)
    cluster.wait(lambda: not cluster.children("/admin/delete_topics"), "the deletion's end")
    assert cluster.read("/brokers/topics/t") is None
    assert cluster.create("t", controller) == 0


@pytest.mark.slow
def test_a_deletion_outlives_the_controller_that_began_it(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    down = other_than(cluster, controller)
    cluster.kill(down)
    cluster.wait(lambda: down not in cluster.state("t")["isr"], "it is fenced")
    assert cluster.delete("t", controller) == 0
    cluster.kill(controller)
    new = cluster.wait_for_controller(controller)
    cluster.start(controller)
    cluster.start(down)
    cluster.wait(lambda: not cluster.children("/admin/delete_topics"), "the deletion's end")
    assert cluster.read("/brokers/topics/t") is None
    assert cluster.create("t", new) == 0


@pytest.mark.slow
def test_a_partition_without_a_state_is_completed_by_the_next_controller(
    cluster: ZookeeperCluster,
) -> None:
    controller = cluster.wait_for_controller()
    data = b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAKg","partitions":{"0":[1,2],"1":[2,3]}}'
    cluster.znode(Create("/brokers/topics/t", data))
    cluster.znode(Create("/brokers/topics/t/partitions"))
    cluster.znode(Create("/brokers/topics/t/partitions/0"))
    cluster.kill(controller)
    cluster.wait_for_controller(controller)
    cluster.wait(
        lambda: cluster.children("/brokers/topics/t/partitions") == ["0", "1"], "both partitions"
    )
    cluster.wait(lambda: cluster.state("t", 1)["leader"] in cluster.nodes, "a live leader")


@pytest.mark.slow
def test_a_starting_broker_answers_when_it_knows_the_topics(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    broker = other_than(cluster, controller)
    cluster.kill(broker)
    cluster.wait(lambda: broker not in cluster.state("t")["isr"], "it is fenced")
    cluster.start(broker)
    while isinstance(answer := cluster.ask(broker, MetadataRequest(topics=None)), ChannelError):
        pass  # until it listens
    assert [topic.name for topic in answer.topics] == ["t"]


@pytest.mark.slow
def test_a_reassignment_asked_for_by_a_znode_is_carried_out(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller, replicas=1)
    leader = cluster.state("t")["leader"]
    target = other_than(cluster, leader)
    wanted = f'{{"version":1,"partitions":[{{"topic":"t","partition":0,"replicas":[{target}]}}]}}'
    cluster.znode(Create("/admin/reassign_partitions", wanted.encode()))
    cluster.wait(lambda: "reassign_partitions" not in cluster.children("/admin"), "its end")
    topic = cluster.read("/brokers/topics/t")
    assert topic is not None
    assert (topic["partitions"], topic["adding_replicas"]) == ({"0": [target]}, {})
    assert (cluster.state("t")["leader"], cluster.state("t")["isr"]) == (target, [target])
    former = cluster.nodes[leader].broker
    assert former is not None
    cluster.wait(lambda: ("t", 0) not in former.replicas.by_name, "the former replica's end")


@pytest.mark.slow
def test_a_preferred_election_asked_for_by_a_znode_is_held(cluster: ZookeeperCluster) -> None:
    controller = cluster.wait_for_controller()
    cluster.create("t", controller, partitions=3)
    victim = other_than(cluster, controller)
    index = next(i for i in range(3) if cluster.state("t", i)["leader"] == victim)
    cluster.kill(victim)
    cluster.wait(lambda: cluster.state("t", index)["leader"] != victim, "another leader")
    cluster.start(victim)
    cluster.wait(lambda: victim in cluster.state("t", index)["isr"], "its return")
    wanted = f'{{"version":1,"partitions":[{{"topic":"t","partition":{index}}}]}}'
    cluster.znode(Create("/admin/preferred_replica_election", wanted.encode()))
    cluster.wait(lambda: cluster.state("t", index)["leader"] == victim, "the preferred leader")
    assert "preferred_replica_election" not in cluster.children("/admin")


@pytest.mark.slow
def test_a_topic_keeps_the_id_that_an_old_tool_has_dropped(cluster: ZookeeperCluster) -> None:
    """As tools of before Kafka 2.8 write the assignment (KAFKA-14190)."""
    controller = cluster.wait_for_controller()
    cluster.create("t", controller)
    assert cluster.produce("t", cluster.state("t")["leader"], b"before") == 0
    topic = cluster.read("/brokers/topics/t")
    assert topic is not None
    before = topic.pop("topic_id")
    cluster.znode(SetData("/brokers/topics/t", json.dumps({**topic, "version": 2}).encode()))
    cluster.kill(controller)
    cluster.wait_for_controller(controller)
    cluster.wait(lambda: "topic_id" in (cluster.read("/brokers/topics/t") or {}), "its id")
    assert (cluster.read("/brokers/topics/t") or {})["topic_id"] == before
    cluster.wait(lambda: cluster.produce("t", cluster.state("t")["leader"]) == 0, "a record")
    for node in cluster.nodes.values():
        assert node.broker is not None
        log = node.broker.replicas.by_name["t", 0].log
        assert log is not None
        cluster.wait(lambda: log.log_end_offset == 2, "both records")  # noqa: B023


def test_clients_see_a_new_topic_with_all_its_partitions(cluster: ZookeeperCluster) -> None:
    """LeaderAndIsr has those of the broker alone; UpdateMetadata, which follows, has all."""
    controller = cluster.wait_for_controller()
    broker, topic_id = other_than(cluster, controller), Uuid(bytes(15) + b"\x2a")
    led: Any = {"leader": broker, "leader_epoch": 0, "isr": [broker], "replicas": [broker]}
    own = LeaderAndIsrPartitionState(partition_index=0, is_new=True, **led)
    named = LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=[own])
    epoch = cluster.epoch_of(controller)
    orders: Any = {"controller_id": controller, "controller_epoch": epoch, "broker_epoch": -1}
    order = LeaderAndIsrRequest(topic_states=[named], **orders)
    assert cluster.ask(broker, order).error_code == 0
    image = cluster.broker_of(broker).image
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
    )
    assert cluster.ask(broker, asked).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(image.topics_by_name["t"]) == 1
    every = [UpdateMetadataPartitionState(partition_index=i, **led) for i in range(3)]
    whole = UpdateMetadataTopicState(topic_name="t", topic_id=topic_id, partition_states=every)
    update = UpdateMetadataRequest(topic_states=[whole], **orders)
    assert cluster.ask(broker, update).error_code == 0
    assert len(cluster.ask(broker, asked).topics[0].partitions) == 3


def test_orders_of_topics_without_ids_change_nothing(cluster: ZookeeperCluster) -> None:
    """A controller of Kafka with inter.broker.protocol.version 2.6 sends such."""
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller) == 0
    follower = other_than(cluster, controller)
    cluster.wait(lambda: in_sync(cluster, "t"), "its replicas")
    logs = sorted(map(str, cluster.broker_of(follower).replicas.logs.logs))
    epoch = cluster.epoch_of(controller) + 1
    state = LeaderAndIsrPartitionState(partition_index=0, leader=9, replicas=[9], isr=[9])
    named = LeaderAndIsrTopicState(topic_name="t", partition_states=[state])
    orders = LeaderAndIsrRequest(controller_id=9, controller_epoch=epoch, topic_states=[named])
    assert cluster.ask(follower, orders).error_code == ErrorCode.UNSUPPORTED_VERSION
    told = UpdateMetadataTopicState(topic_name="t", partition_states=[])
    update = UpdateMetadataRequest(controller_id=9, controller_epoch=epoch, topic_states=[told])
    assert cluster.ask(follower, update).error_code == ErrorCode.UNSUPPORTED_VERSION
    image = cluster.broker_of(follower).image
    assert image.topics_by_name["t"].leader[0] != 9
    assert sorted(map(str, cluster.broker_of(follower).replicas.logs.logs)) == logs


@pytest.mark.slow
def test_a_broker_that_names_others_names_their_controller(cluster: ZookeeperCluster) -> None:
    former = cluster.wait_for_controller()
    broker = other_than(cluster, former)
    cluster.network.cut("z1", f"n{broker}")
    cluster.kill(former)
    now = cluster.wait_for_controller(other_than=former)
    orders = cluster.nodes[broker].control_requests
    cluster.wait(lambda: orders.controller_id == now, "it follows the new controller")
    assert cluster.nodes[broker].election.controller_id != now
    assert cluster.ask(broker, MetadataRequest(topics=[])).controller_id == now
    cluster.network.heal()
    cluster.wait(lambda: cluster.nodes[broker].election.controller_id == now, "it has read more")
    assert cluster.ask(broker, MetadataRequest(topics=[])).controller_id == now


def test_a_broker_with_orders_of_a_kraft_controller_names_a_broker(
    cluster: ZookeeperCluster,
) -> None:
    """It has not read yet that the controller has taken over: no client reaches that one."""
    controller = cluster.wait_for_controller()
    broker, epoch = other_than(cluster, controller), cluster.epoch_of(controller) + 1
    live = [
        UpdateMetadataBroker(
            id=each,
            endpoints=[UpdateMetadataEndpoint(port=9092, host=f"n{each}", listener="PLAINTEXT")],
        )
        for each in cluster.nodes
    ]
    taken = UpdateMetadataRequest(
        controller_id=101,
        controller_epoch=epoch,
        is_k_raft_controller=True,
        broker_epoch=-1,
        live_brokers=live,
    )
    assert cluster.ask(broker, taken).error_code == 0
    assert cluster.nodes[broker].control_requests.controller_id == 101
    assert not cluster.nodes[broker].election.is_kraft
    assert cluster.ask(broker, MetadataRequest(topics=[])).controller_id in cluster.nodes
