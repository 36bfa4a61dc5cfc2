"""A node says within a second what makes it not ready, and why: drills with real processes.

The other states are in `tests/unit/monitoring/test_health.py`. The drills stand here for their half a minute.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest
from confluent_kafka import admin

from barnabas.testing.cluster import Cluster

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]
PATIENCE_S = 60.0
NOTICED_S = 1.0
QUORUM_NOTICED_S = 8.0
"""A leader of the quorum gives up by the quorum's time-outs, some seconds after its majority has died."""
POLL_S = 0.02


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"replica.lag.time.max.ms": "1500", "broker.session.timeout.ms": "3000"}
    with Cluster(nodes=3, settings=settings) as cluster:
        for node in cluster.node_ids:
            wait_until(lambda: not failing(cluster, node), f"node {node} is not ready")  # noqa: B023
        yield cluster


def wait_until(condition: Callable[[], object], what: str) -> float:
    """How long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + PATIENCE_S, what
        time.sleep(POLL_S)
    return time.monotonic() - began


def failing(cluster: Cluster, node: int) -> dict[str, str]:
    """The checks that fail, with their reasons; one of its own where nothing answers."""
    url = f"{cluster.node(node)['metrics']}/health/ready"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        text = error.read()
    except OSError as error:
        return {"answer": str(error)}
    return {
        check["check"]: check["why"] for check in json.loads(text)["checks"] if not check["passes"]
    }


def leader_of_quorum(cluster: Cluster) -> int:
    """The node that the others' pages name."""
    name = "kafka_server_raftmetrics_current_leader "
    url = f"{cluster.node(cluster.node_ids[0])['metrics']}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    [found] = [line for line in lines if line.startswith(name)]
    return int(found.removeprefix(name))


def test_a_node_that_is_killed_or_leaves_is_not_ready(cluster: Cluster) -> None:
    os.kill(cluster.pid(3), signal.SIGTERM)
    assert wait_until(lambda: failing(cluster, 3), "it leaves") < NOTICED_S
    cluster.kill(2)
    assert wait_until(lambda: failing(cluster, 2), "it is dead") < NOTICED_S


def test_a_node_without_the_majority_is_not_ready(cluster: Cluster) -> None:
    leader = leader_of_quorum(cluster)
    for node in cluster.node_ids:
        if node != leader:
            cluster.kill(node)
    took_s = wait_until(lambda: "quorum" in failing(cluster, leader), "the leader knows")
    assert took_s < QUORUM_NOTICED_S


def test_a_node_that_was_paused_says_that_it_is_fenced(cluster: Cluster) -> None:
    leader = leader_of_quorum(cluster)
    paused = next(node for node in cluster.node_ids if node != leader)
    cluster.pause(paused)
    name = "kafka_controller_kafkacontroller_fencedbrokercount 1"
    url = f"{cluster.node(leader)['metrics']}/metrics"

    def is_fenced() -> bool:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return name in answer.read().decode().splitlines()

    wait_until(is_fenced, "it is not fenced")
    cluster.resume(paused)
    took_s = wait_until(lambda: "registration" in failing(cluster, paused), "it does not say so")
    assert took_s < NOTICED_S
    wait_until(lambda: not failing(cluster, paused), "it does not return")


def test_a_broker_that_holds_up_producers_is_not_ready(cluster: Cluster) -> None:
    """It was paused, and a throttle keeps its replica behind: the ISR is too small for lack of it."""
    servers = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    client = admin.AdminClient(servers)
    throttled = {"follower.replication.throttled.replicas": "*", "min.insync.replicas": "2"}
    topic = admin.NewTopic("held", 1, replica_assignment=[[1, 3]], config=throttled)
    client.create_topics([topic], request_timeout=PATIENCE_S)["held"].result(PATIENCE_S)
    rate = admin.ConfigResource(
        admin.ConfigResource.Type.BROKER,
        "3",
        incremental_configs=[
            admin.ConfigEntry(
                "follower.replication.throttled.rate",
                "1",
                incremental_operation=admin.AlterConfigOpType.SET,
            )
        ],
    )
    for altered in client.incremental_alter_configs([rate]).values():
        altered.result(PATIENCE_S)
    cluster.pause(3)
    producer = confluent_kafka.Producer({**servers, "acks": 1, "linger.ms": 0})
    name = 'kafka_cluster_partition_underminisr{topic="held",partition="0"} 1'
    url = f"{cluster.node(1)['metrics']}/metrics"

    def is_small() -> bool:
        producer.produce("held", b"v" * 100_000)
        producer.flush(PATIENCE_S)
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return name in answer.read().decode().splitlines()

    wait_until(is_small, "its ISR stays whole")
    cluster.resume(3)
    wait_until(lambda: "held-0" in failing(cluster, 3).get("min_isr", ""), "it does not say so")
    assert "min_isr" not in failing(cluster, 1)
