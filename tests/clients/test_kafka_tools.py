"""Apache Kafka's own command-line tools, and with them its Java clients, against our cluster.

Each tool runs as its script would start it; what it prints is what people read, so that is what is
compared.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.checks import fresh
from tests.peers import CLASS_PATH

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka"),
    pytest.mark.slow,
]

TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of this module's own: it reads the files of the nodes and stops them."""
    directory = tmp_path_factory.mktemp("tools")
    with Cluster(3, directory, {"group.initial.rebalance.delay.ms": "0"}) as cluster:
        yield cluster


def run(tool: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
    """What the tool prints on both streams. A name that is not whole is one of `TOOLS`."""
    tool = tool if tool.startswith("kafka.") else f"{TOOLS}.{tool}"
    command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    done = subprocess.run(
        [*command, "-cp", CLASS_PATH, tool, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    said = done.stdout + "".join(x for x in done.stderr.splitlines(True) if "SLF4J" not in x)
    assert (done.returncode != 0) == fails, said
    return said


def on(cluster: Cluster) -> tuple[str, str]:
    return ("--bootstrap-server", cluster.bootstrap)


def create(cluster: Cluster, *arguments: str) -> str:
    topic = fresh("tools")
    run(
        "TopicCommand", *on(cluster), "--create", "--topic", topic, "--replication-factor", "3",
        *arguments,
    )  # fmt: skip
    return topic


def produce(cluster: Cluster, topic: str, count: int, *arguments: str) -> None:
    lines = "".join(f"k{i}:v{i}\n" for i in range(count))
    said = run(
        "ConsoleProducer", *on(cluster), "--topic", topic, "--reader-property", "parse.key=true",
        "--reader-property", "key.separator=:", *arguments, stdin=lines,
    )  # fmt: skip
    assert "ERROR" not in said


def consume(cluster: Cluster, topic: str, count: int, *arguments: str) -> list[str]:
    said = run(
        "consumer.ConsoleConsumer", *on(cluster), "--topic", topic, "--from-beginning",
        "--max-messages", str(count), "--timeout-ms", "30000",
        "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:",
        *arguments,
    )  # fmt: skip
    assert f"Processed a total of {count} messages" in said
    return [line for line in said.splitlines() if re.fullmatch(r"k\d+:v\d+", line)]


def test_a_topic_is_created_described_altered_and_deleted(cluster: Cluster) -> None:
    topic = create(cluster, "--partitions", "3", "--config", "segment.bytes=1048576")
    listed = run("TopicCommand", *on(cluster), "--list").split()
    assert topic in listed
    described = run("TopicCommand", *on(cluster), "--describe", "--topic", topic)
    assert "PartitionCount: 3\tReplicationFactor: 3" in described
    assert "segment.bytes=1048576" in described
    leaders = re.findall(r"Partition: \d+\s+Leader: (\d+)\s+Replicas: ([\d,]+)", described)
    assert {leader for leader, _ in leaders} == {"1", "2", "3"}
    assert all(replicas.split(",")[0] == leader for leader, replicas in leaders)

    run("TopicCommand", *on(cluster), "--alter", "--topic", topic, "--partitions", "5")
    described = run("TopicCommand", *on(cluster), "--describe", "--topic", topic)
    assert "PartitionCount: 5" in described

    again = run(
        "TopicCommand", *on(cluster), "--create", "--topic", topic, "--partitions", "1", fails=True
    )
    assert "already exists" in again

    run("TopicCommand", *on(cluster), "--delete", "--topic", topic)
    assert topic not in run("TopicCommand", *on(cluster), "--list").split()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_java_consumer_reads_what_the_java_producer_wrote(cluster: Cluster, codec: str) -> None:
    topic = create(cluster, "--partitions", "1")
    produce(cluster, topic, 300, "--compression-codec", codec)
    assert consume(cluster, topic, 300) == [f"k{i}:v{i}" for i in range(300)]


def test_offsets_by_time_and_end(cluster: Cluster) -> None:
    topic = create(cluster, "--partitions", "2")
    produce(cluster, topic, 500)
    ends = dict(_offsets(cluster, topic, "latest"))
    assert sum(ends.values()) == 500
    assert _offsets(cluster, topic, "earliest") == [(0, 0), (1, 0)]
    newest = dict(_offsets(cluster, topic, "max-timestamp"))
    assert all(0 <= newest[partition] < ends[partition] for partition in ends)


def _offsets(cluster: Cluster, topic: str, time: str) -> list[tuple[int, int]]:
    said = run("GetOffsetShell", *on(cluster), "--topic", topic, "--time", time)
    lines = [line.split(":") for line in said.splitlines() if line.startswith(topic)]
    return sorted((int(partition), int(offset)) for _, partition, offset in lines)


def test_a_group_is_described_reset_and_deleted(cluster: Cluster) -> None:
    topic, group = create(cluster, "--partitions", "2"), fresh("group")
    produce(cluster, topic, 100)
    consume(cluster, topic, 100, "--group", group)

    def groups(*arguments: str) -> str:
        return run("consumer.group.ConsumerGroupCommand", *on(cluster), *arguments)

    assert group in groups("--list").split()
    assert re.search(rf"{group}\s.*\sEmpty\s+0", groups("--describe", "--group", group, "--state"))
    assert _lags(groups("--describe", "--group", group), topic) == [0, 0]
    groups("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    assert sum(_lags(groups("--describe", "--group", group), topic)) == 100
    assert sorted(consume(cluster, topic, 100, "--group", group)) == sorted(
        f"k{i}:v{i}" for i in range(100)
    )
    assert "was successful" in groups("--delete", "--group", group)
    assert group not in groups("--list").split()


def _lags(described: str, topic: str) -> list[int]:
    rows = [line.split() for line in described.splitlines() if topic in line.split()]
    return [int(row[row.index(topic) + 4]) for row in rows]


def test_the_quorum_is_described_alike_by_brokers_and_controllers(cluster: Cluster) -> None:
    by_brokers = run("MetadataQuorumCommand", *on(cluster), "describe", "--status")
    controllers = ",".join(node["listeners"]["CONTROLLER"] for node in cluster.state["nodes"])
    by_controllers = run(
        "MetadataQuorumCommand", "--bootstrap-controller", controllers, "describe", "--status"
    )
    for said in (by_brokers, by_controllers):
        (leader,) = re.findall(r"LeaderId:\s+(\d+)", said)
        assert int(leader) in (1, 2, 3)
        assert re.search(r"MaxFollowerLag:\s+\d+", said)
        assert sorted(re.findall(r'"id": (\d)', said.partition("CurrentObservers")[0])) == [
            "1", "2", "3",
        ]  # fmt: skip
    replicas = run("MetadataQuorumCommand", *on(cluster), "describe", "--replication")
    assert sorted(re.findall(r"\b(Leader|Follower|Observer)\b", replicas)) == [
        "Follower", "Follower", "Leader",
    ]  # fmt: skip


def test_the_idempotent_producer_at_full_speed(cluster: Cluster) -> None:
    topic = create(cluster, "--partitions", "3", "--config", "min.insync.replicas=2")
    said = run(
        "ProducerPerformance", *on(cluster), "--topic", topic, "--num-records", "50000",
        "--record-size", "200", "--throughput", "-1",
        "--command-property", "acks=all", "enable.idempotence=true", "compression.type=lz4",
    )  # fmt: skip
    assert "50000 records sent" in said
    assert sum(offset for _, offset in _offsets(cluster, topic, "latest")) == 50_000


def test_configs_of_loggers_topics_and_metrics(cluster: Cluster) -> None:
    configs = "ConfigCommand"
    loggers = (*on(cluster), "--entity-type", "broker-loggers", "--entity-name", "1")
    said = run(configs, *loggers, "--alter", "--add-config", "raft=WARN,loop=ERROR")
    assert "Completed updating config for broker-logger 1." in said
    said = run(configs, *loggers, "--describe")
    assert re.search(r"^  raft=WARN ", said, re.M) and re.search(r"^  root=INFO ", said, re.M)
    run(configs, *loggers, "--alter", "--delete-config", "raft,loop")
    topic = create(cluster, "--config", "cleanup.policy=compact,delete")
    said = run(
        configs,
        *on(cluster),
        "--entity-type",
        "topics",
        "--entity-name",
        topic,
        "--describe",
        "--all",
    )
    assert "  retention.ms=604800000 sensitive=false synonyms={}" in said
    metrics = (*on(cluster), "--entity-type", "client-metrics", "--entity-name", "our")
    run(configs, *metrics, "--alter", "--add-config", "interval.ms=1000,match=[client_id=a.*]")
    said = run(configs, *metrics, "--describe")
    assert "  match=client_id=a.* sensitive=false" in said and "interval.ms=1000" in said
    said = run(configs, *metrics, "--alter", "--add-config", "match=[colour=blue]", fails=True)
    assert "Illegal client matching pattern: colour=blue" in said


def test_the_dump_tool_reads_every_file_of_a_partition_and_of_the_metadata(
    cluster: Cluster,
) -> None:
    """The last of this module: it stops the cluster, so that all files are complete."""
    topic = create(cluster, "--partitions", "1", "--config", "segment.bytes=1048576")
    run(
        "ProducerPerformance", *on(cluster), "--topic", topic, "--num-records", "12000",
        "--record-size", "400", "--throughput", "-1", "--command-property", "acks=all",
    )  # fmt: skip
    data = cluster.directory / "cluster" / "node-1" / "data"
    cluster.stop()
    files = {
        kind: sorted(map(str, (data / f"{topic}-0").glob(f"*.{kind}")))
        for kind in ("log", "index", "timeindex")
    }
    assert len(files["log"]) > 3
    logs = run("DumpLogSegments", "--files", ",".join(files["log"]), "--deep-iteration")
    assert logs.count("| offset: ") == 12_000
    assert "isvalid: false" not in logs
    indexes = run("DumpLogSegments", "--files", ",".join(files["index"] + files["timeindex"]))
    assert "offset: " in indexes and "timestamp: " in indexes
    assert not re.search("mismatch|out of order|not found", indexes, re.IGNORECASE), indexes

    metadata = sorted(map(str, (data / "__cluster_metadata-0").glob("*.log")))
    said = run("DumpLogSegments", "--cluster-metadata-decoder", "--files", ",".join(metadata))
    for kind in ("REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD"):
        assert f'"type":"{kind}"' in said
    assert f'"name":"{topic}"' in said
