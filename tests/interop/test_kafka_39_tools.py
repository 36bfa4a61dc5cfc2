"""Tools of Apache Kafka 3.9.1 on a ZooKeeper-mode cluster find what they expect: of three brokers of ours,
and of one of theirs, which is the controller, and two of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mixed_cluster import (
    PARTITIONS,
    MixedCluster,
    check_replicas,
    mixed_cluster,
    run_java,
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
BROKERS = (1, 2, 3)


@pytest.fixture(scope="module", params=[(), (1,)], ids=["ours", "mixed"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    with mixed_cluster(tmp_path_factory.mktemp("tools"), theirs=request.param) as cluster:
        for broker in BROKERS:
            cluster.start(broker)
        cluster.create("t")
        cluster.produce("t", range(300))
        yield cluster


def test_topics_are_described_as_their_znodes_say(cluster: MixedCluster) -> None:
    topics = "org.apache.kafka.tools.TopicCommand"
    told = run_tool(cluster, topics, "--describe", "--topic", "t")
    assert told.count("Partition: ") == PARTITIONS
    assert run_tool(cluster, topics, "--describe", "--under-replicated-partitions").strip() == ""
    run_tool(cluster, topics, "--create", "--topic", "made", "--partitions", "2")
    run_tool(cluster, topics, "--alter", "--topic", "made", "--partitions", "3")
    assert len(cluster.read("/brokers/topics/made")["partitions"]) == 3
    run_tool(cluster, topics, "--delete", "--topic", "made")
    wait_until(lambda: cluster.znodes.exists("/brokers/topics/made") is None, "it is deleted")


def test_configurations_and_scram_users_are_written_as_znodes(cluster: MixedCluster) -> None:
    configs = "kafka.admin.ConfigCommand"
    entity = ("--entity-type", "topics", "--entity-name", "t")
    run_tool(cluster, configs, "--alter", *entity, "--add-config", "retention.ms=60000")
    assert cluster.read("/config/topics/t")["config"] == {"retention.ms": "60000"}
    assert "retention.ms=60000" in run_tool(cluster, configs, "--describe", *entity)
    # Before the brokers know a user its credentials are written into ZooKeeper itself.
    user = ("--entity-type", "users", "--entity-name", "ann")
    secret = "SCRAM-SHA-256=[iterations=4096,password=secret]"
    run_java(configs, "--zookeeper", cluster.connect, "--alter", *user, "--add-config", secret)
    assert "SCRAM-SHA-256" in cluster.read("/config/users/ann")["config"]
    wait_until(
        lambda: "SCRAM-SHA-256" in run_tool(cluster, configs, "--describe", *user),
        "brokers know it",
    )


def test_a_reassignment_and_an_election_are_verified(cluster: MixedCluster, tmp_path: Path) -> None:
    replicas = [3, 1]
    wanted = {"topic": "t", "partition": 0, "replicas": replicas}
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    main = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    at = ("--reassignment-json-file", str(file))
    run_tool(cluster, main, *at, "--execute")
    wait_until(lambda: "is completed" in run_tool(cluster, main, *at, "--verify"), "it is over")
    assert cluster.read("/brokers/topics/t")["partitions"]["0"] == replicas
    elect = "org.apache.kafka.tools.LeaderElectionCommand"
    run_tool(cluster, elect, "--election-type", "preferred", "--all-topic-partitions")
    state = cluster.read("/brokers/topics/t/partitions/0/state")
    assert state["leader"] == replicas[0]
    assert sorted(state["isr"]) == sorted(replicas)


def test_zookeepers_own_shell_reads_the_cluster(cluster: MixedCluster) -> None:
    shell = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
    told = run_java(shell, "-server", cluster.connect, "ls", "/brokers/ids")
    assert "[1, 2, 3]" in told
    told = run_java(shell, "-server", cluster.connect, "get", "/controller")
    assert f'"brokerid":{cluster.controller}' in told


def test_replicas_hold_the_same(cluster: MixedCluster) -> None:
    check_replicas(cluster, "t")


@pytest.mark.parametrize("cluster", [(1,)], ids=["mixed"], indirect=True)
def test_ours_offers_each_version_that_theirs_does_since_kafka_2_1(cluster: MixedCluster) -> None:
    """But for what Apache Kafka 4 removed (KIP-896), and UpdateFeatures, which finds no feature there."""
    printed = run_tool(cluster, "kafka.admin.BrokerApiVersionsCommand")
    offered = {}
    for broker, apis in re.findall(r"id: (\d+) .*?\(\n(.*?)\n\)", printed, re.DOTALL):
        found = re.findall(r"\t(\w+)\(\d+\): (?:\d+ to )?(\d+) ", apis)
        offered[int(broker)] = {name: int(highest) for name, highest in found}
    theirs = offered[min(cluster.theirs)]
    assert len(theirs) > 60
    for broker in BROKERS:
        lacking = [api for api in theirs if offered[broker].get(api, -1) < theirs[api]]
        assert lacking in ([], ["UpdateFeatures"])
