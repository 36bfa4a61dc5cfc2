"""Apache Kafka's tools on our quorum: kafka-metadata-quorum, the metadata shell, kafka-dump-log."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.feature_levels import SAFE_DOWNGRADE, UPGRADE, update_features
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.peers import CLASS_PATH, CLASS_PATH_43, RELEASE, RELEASE_43

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
]
PATIENCE_S = 60.0
TOPIC = "seen"
TRIES = 10
LOG = "00000000000000000000.log"
HARMLESS = "SnapshotFileReader Ignoring control record"
"""Kafka logs it as an error for the header and the footer of each snapshot."""


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Our nodes at the feature levels of the release that is its parameter."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "500"}
    with Cluster(nodes=3, settings=settings, release=request.param) as cluster:
        with connect(cluster.bootstrap) as client:
            client.create_topic(TOPIC, 4, 3, {"retention.ms": "3600000"})
            # Records that say who asked for them, which Kafka's do not.
            client.call(client.admin.alter_configs(2, TOPIC, {"retention.ms": "3600001"}))
            for level, kind in ((0, SAFE_DOWNGRADE), (1, UPGRADE)):
                client.call(update_features(client.client, {"group.version": level}, kind))
        yield cluster


def kafka(main: str, *words: str, class_path: str = CLASS_PATH) -> str:
    """What a tool of Kafka prints. Fails where its log has warnings that are not `HARMLESS`."""
    done = subprocess.run(
        ["java", "-Xmx200m", "-cp", class_path, f"org.apache.kafka.{main}", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = "\n".join(line for line in done.stderr.splitlines() if HARMLESS not in line)
    assert done.returncode == 0 and not said, said or done.stdout
    return done.stdout


def metadata_directory(cluster: Cluster) -> Path:
    """The quorum's log of the first node."""
    properties = Path(cluster.node(cluster.node_ids[0])["properties"])
    [line] = [x for x in properties.read_text().splitlines() if x.startswith("log.dirs=")]
    return Path(line.partition("=")[2].split(",")[0]) / "__cluster_metadata-0"


@pytest.fixture(scope="module")
def copied(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its log with at least one snapshot, away from the running node's lock."""
    source = metadata_directory(cluster)
    deadline = time.monotonic() + PATIENCE_S
    while not any(int(path.name.partition("-")[0]) > 30 for path in source.glob("*.checkpoint")):
        assert time.monotonic() < deadline, "no snapshot"
        with connect(cluster.bootstrap) as client:  # records, until it is time for one
            client.create_topic(f"more-{time.monotonic_ns()}", 3, 3)
    target = tmp_path_factory.mktemp("metadata") / source.name
    shutil.copytree(source, target)
    return target


@pytest.mark.parametrize("cluster", [RELEASE], indirect=True)
def test_kafka_metadata_quorum_describes_ours(cluster: Cluster) -> None:
    controller = cluster.node(cluster.node_ids[0])["listeners"]["CONTROLLER"]
    for where in (
        ("--bootstrap-server", cluster.bootstrap),
        ("--bootstrap-controller", controller),
    ):
        status = kafka("tools.MetadataQuorumCommand", *where, "describe", "--status")
        assert "LeaderEpoch:" in status and "MaxFollowerLag:" in status
        table = kafka("tools.MetadataQuorumCommand", *where, "describe", "--replication")
        assert table.count("Follower") == 2 and table.count("Leader") == 1


@pytest.mark.parametrize("cluster", [RELEASE], indirect=True)
def test_kafka_cluster_lists_the_apis_of_both_listeners(cluster: Cluster) -> None:
    controller = cluster.node(cluster.node_ids[0])["listeners"]["CONTROLLER"]
    where = ("--bootstrap-server", cluster.bootstrap)
    assert "ShareFetch(78)" in kafka("tools.ClusterTool", "api-versions", *where)
    where = ("--bootstrap-controller", controller)
    assert "UnregisterController(94)" in kafka("tools.ClusterTool", "api-versions", *where)


def check_shell(file: Path) -> None:
    """It shows the whole image, the topic with its partitions and configuration among it.

    The shell is that of 4.3.0, the last that has one: it does not know a newer metadata.version. It answers
    while it still reads: the same command on the same file says now more, now less.
    """
    wanted = [
        "metadataVersion",
        TOPIC,
        "PartitionRegistration(",
        f"TOPIC:{TOPIC}:",
        "retention.ms:",
    ]
    for _ in range(TRIES):
        said = kafka(
            "shell.MetadataShell",
            "--snapshot",
            str(file),
            "tree",
            "/image",
            class_path=CLASS_PATH_43,
        )
        missing = [word for word in wanted if word not in said]
        if not missing:
            return
    raise AssertionError(f"{missing} in {said}")


@pytest.mark.peers("kafka43")
@pytest.mark.parametrize("cluster", [RELEASE_43], indirect=True)
def test_the_metadata_shell_reads_our_log(copied: Path) -> None:
    check_shell(copied / LOG)


@pytest.mark.peers("kafka43")
@pytest.mark.parametrize("cluster", [RELEASE_43], indirect=True)
def test_the_metadata_shell_reads_our_snapshot(copied: Path) -> None:
    check_shell(newest_snapshot(copied))


def newest_snapshot(directory: Path) -> Path:
    return sorted(directory.glob("*.checkpoint"))[-1]


@pytest.mark.parametrize("cluster", [RELEASE], indirect=True)
def test_kafka_dump_log_reads_our_log_and_snapshot(copied: Path) -> None:
    for path in (copied / LOG, newest_snapshot(copied)):
        shown = kafka(
            "tools.DumpLogSegments",
            "--cluster-metadata-decoder",
            "--deep-iteration",
            "--files",
            str(path),
        )
        assert "FEATURE_LEVEL_RECORD" in shown
        assert '"value":"3600001"' in shown
        assert "isvalid: false" not in shown and "Found" not in shown
    assert b"asked by User:ANONYMOUS" in (copied / LOG).read_bytes()
