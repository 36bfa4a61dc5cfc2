"""A listener for the controller alone (`control.plane.listener.name`), and ids that the ensemble gives."""

from __future__ import annotations

import pytest

from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimProcess
from barnabas.types import Endpoint
from barnabas.zookeeper.door import node_config
from barnabas.zookeeper.node.zookeeper_node import ZookeeperNode
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

pytestmark = pytest.mark.slow
CONTROL_PORT = 9094


def test_orders_and_requests_to_the_controller_use_its_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[tuple[str, Endpoint]] = []
    connect = SimNetwork.connect

    def noted(self: SimNetwork, process: SimProcess, endpoint: Endpoint, receiver: object) -> None:
        opened.append((process.machine.host, endpoint))
        connect(self, process, endpoint, receiver)  # type: ignore[arg-type]

    monkeypatch.setattr(SimNetwork, "connect", noted)
    cluster = ZookeeperCluster(
        control_plane_listener_name="CONTROLLER",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    controller = cluster.wait_for_controller()
    assert cluster.create("t", controller, partitions=3) == 0
    cluster.wait(lambda: len(cluster.state("t")["isr"]) == 3, "its ISR")
    cluster.pass_time(1_000)  # until the others know which broker is controller
    others = [broker for broker in cluster.nodes if broker != controller]
    reached = {(host, at.host) for host, at in opened if at.port == CONTROL_PORT}
    assert {(f"n{controller}", f"n{other}") for other in others} <= reached
    assert {(f"n{other}", f"n{controller}") for other in others} <= reached
    cluster.kill(controller)  # noticed by the end of a connection to that listener
    following = cluster.wait_for_controller(controller)
    cluster.wait(lambda: cluster.state("t")["leader"] in cluster.nodes, "a live leader")
    assert cluster.create("u", following, replicas=2) == 0
    cluster.world.let_go()


def test_a_broker_without_an_id_gets_one_above_the_reserved_ones_and_keeps_it() -> None:
    cluster = ZookeeperCluster(brokers=1)
    properties = {
        "zookeeper.connect": cluster.ensemble.connect,
        "reserved.broker.max.id": "5000",
        "listeners": "PLAINTEXT://n9:9092",
        "log.dirs": "/data",
    }
    machine = cluster.machine("n9")
    for _ in range(2):
        process = machine.start_process()
        node = ZookeeperNode(node_config(properties), process)
        process.run(node.start)
        cluster.wait(lambda: node.is_ready, "it is ready")  # noqa: B023
        assert int(node.config.node_id) == 5001
        assert "5001" in cluster.children("/brokers/ids")
        process.kill()
    cluster.world.let_go()
