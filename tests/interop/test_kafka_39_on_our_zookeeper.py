"""Brokers, clients and tools of Apache Kafka 3.9.1 on three ZooKeeper servers of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from barnabas.cli.local.zookeeper_servers import OWN, ZooKeeperServers
from tests.interop.mixed_cluster import (
    JAVA,
    OURS,
    THEIRS,
    MixedCluster,
    mixed_cluster,
    run_tool,
    wait_until,
)

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]
BROKERS = (THEIRS, *OURS)
SHELL = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    with ZooKeeperServers(tmp_path_factory.mktemp("zookeeper"), 3, kind=OWN) as servers:
        yield servers


@pytest.fixture(scope="module")
def cluster(
    servers: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    directory = tmp_path_factory.mktemp("kafka")
    with mixed_cluster(directory, servers, theirs=BROKERS) as cluster:
        for broker in BROKERS:
            cluster.start(broker)
        yield cluster


def test_kafka_outlives_its_controller_and_our_leader(
    cluster: MixedCluster, servers: ZooKeeperServers
) -> None:
    topics = "org.apache.kafka.tools.TopicCommand"
    run_tool(
        cluster,
        topics,
        "--create",
        "--topic",
        "t",
        "--partitions",
        "3",
        "--replication-factor",
        "3",
    )
    cluster.topics.append("t")
    cluster.wait_for_all("t")
    cluster.produce("t", range(300))

    former = cluster.controller
    cluster.kill(former)
    wait_until(lambda: cluster.controller not in (-1, former), "no other broker rules")
    wait_until(lambda: former not in cluster.members("t"), "it is still in an ISR")
    cluster.produce("t", range(300, 600))
    cluster.restart(former)

    registered = {broker: cluster.read_epoch(broker) for broker in BROKERS}
    leader = servers.leader()
    assert leader is not None
    leader.kill()
    cluster.create("after")
    cluster.produce("t", range(600, 900))
    servers.start_server(leader)
    servers.wait_ready(leader)
    assert {broker: cluster.read_epoch(broker) for broker in BROKERS} == registered
    assert cluster.values("t", 900) == list(range(900))
    described = run_tool(cluster, topics, "--describe", "--topic", "t")
    assert described.count("Partition: ") == 3
    run_tool(cluster, topics, "--delete", "--topic", "after")
    wait_until(lambda: cluster.znodes.exists("/brokers/topics/after") is None, "it is deleted")


def test_kafkas_zookeeper_shell_finds_what_it_asks_for(servers: ZooKeeperServers) -> None:
    told = shell(
        servers.connect,
        "create /shell first",
        "create -s -e /shell/n- x",
        "addWatch -m PERSISTENT_RECURSIVE /shell",
        "set /shell second",
        "get -s /shell",
        "create -c /container",
        "create -t 1000 /short",
        "reconfig -remove 3",
        "addauth digest user:secret",
        "create /mine secret auth::cdrwa",
        "getAcl /mine",
        "whoami",
        "getAllChildrenNumber /shell",
        "getEphemerals /shell",
        "removewatches /shell",
        "deleteall /shell",
        "ls /",
        "sync /",
    )
    assert "Created /shell/n-0000000000" in told
    assert "NodeDataChanged path:/shell" in told
    assert "second" in told and "dataVersion = 1" in told and "numChildren = 1" in told
    assert told.count("KeeperErrorCode = Unimplemented") >= 3
    assert "'digest,'user:" in told
    assert "[mine, zookeeper]" in told or "[mine, mixed, zookeeper]" in told
    assert "Sync is OK" in told


def shell(connect: str, *commands: str) -> str:
    done = subprocess.run(
        [*JAVA, SHELL, "-server", connect],
        input="\n".join((*commands, "quit")) + "\n",
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.stdout + done.stderr
