"""Log directories that fail in a cluster of brokers of Apache Kafka 3.9.1 and of ours on one ZooKeeper: the
broker of either side continues with its others, under a controller of either side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mixed_cluster import (
    OURS,
    PARTITIONS,
    THEIRS,
    MixedCluster,
    mixed_cluster,
    wait_until,
)

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka39"),
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(400),
]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    # Checkpoints are what notices that a directory is gone.
    keys = {
        "replica.high.watermark.checkpoint.interval.ms": "500",
        "log.flush.offset.checkpoint.interval.ms": "1000",
    }
    directory = tmp_path_factory.mktemp("directories")
    with mixed_cluster(directory, keys=keys, log_dirs=2) as cluster:
        for broker in (THEIRS, *OURS):
            cluster.start(broker)
        yield cluster


def isr(cluster: MixedCluster, topic: str, partition: int) -> set[int]:
    return set(cluster.read(f"/brokers/topics/{topic}/partitions/{partition}/state")["isr"])


def logs(directory: Path, topic: str) -> set[int]:
    return {n for n in range(PARTITIONS) if (directory / f"{topic}-{n}").is_dir()}


def fail_one(cluster: MixedCluster, topic: str, broker: int) -> None:
    """One of the broker's two directories is lost: its replicas leave their ISRs, and no others."""
    here, there = cluster.directories(broker)
    every = set(range(PARTITIONS))
    wait_until(lambda: logs(here, topic) | logs(there, topic) == every, "its logs")
    lost, kept = logs(here, topic), logs(there, topic)
    assert lost and kept
    here.rename(here.with_name(f"{here.name}-lost"))  # at once, while it is written to
    wait_until(
        lambda: all(broker not in isr(cluster, topic, n) for n in lost), "the replicas stay in ISRs"
    )
    assert all(broker in isr(cluster, topic, n) for n in kept)
    assert cluster.is_registered(broker)
    cluster.produce(topic, range(300))  # leaders are elsewhere
    cluster.kill(broker)
    here.mkdir()  # a new disk
    cluster.restart(broker)
    assert cluster.values(topic, 300) == list(range(300))


@pytest.mark.parametrize("broker", [THEIRS, OURS[0]], ids=["theirs", "ours"])
@pytest.mark.parametrize("side", [(THEIRS,), OURS], ids=["theirs", "ours"])
def test_a_broker_continues_with_its_other_log_directory(
    cluster: MixedCluster, side: tuple[int, ...], broker: int
) -> None:
    cluster.rule(side)
    topic = "t"
    cluster.create(topic)
    fail_one(cluster, topic, broker)
