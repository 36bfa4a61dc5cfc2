"""Three nodes of 0.1.0 become nodes of this version one by one, and go back, under load.

The sources of 0.1.0 come from git's history and run with the packages of this environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from barnabas import __version__
from barnabas.client.feature_levels import describe_features
from barnabas.host.client import Connected, connect
from barnabas.testing.cluster import Cluster
from tests.process.load import Load, check_read_once, wait_until_whole

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
COMMIT_0_1_0 = "ab11e4a2"
"""The commit that made the page of release 0.1.0."""
PARTITIONS = 3


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of 0.1.0."""
    folder = tmp_path_factory.mktemp("old")
    archive = folder / "sources.tar"
    command = ["git", "archive", "--output", str(archive), COMMIT_0_1_0, "src"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"git's history does not have {COMMIT_0_1_0}: {done.stderr.strip()}")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / "src"


@contextmanager
def running(sources: Path | None) -> Iterator[None]:
    """Processes that are started meanwhile run these sources; None is this version."""
    before = os.environ.get("PYTHONPATH")
    if sources is not None:
        os.environ["PYTHONPATH"] = str(sources)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = before


def version_of_new_processes() -> str:
    command = [sys.executable, "-m", "barnabas", "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


class Replaced(Cluster):
    """A cluster whose `barnabas up` and nodes are those of an old version, which has fewer options."""

    def _end_options(self) -> list[str]:
        return []

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        data = str(self.directory / "cluster")
        command = [sys.executable, "-m", "barnabas", "up", "--nodes", str(self.nodes)]
        with open(self.directory / "up.log", "ab") as log:
            self._up = subprocess.Popen([*command, "--data", data], stdout=log, stderr=log)
        self.wait_for(
            lambda: "bootstrap:" in (self.directory / "up.log").read_text(),
            "the cluster to take writes",
            self.start_timeout_s,
        )


def finalized(client: Connected) -> dict[str, int]:
    """Each feature's level."""
    found = client.call(describe_features(client.client)).features
    return {name: feature.level for name, feature in found.items() if feature.level}


def commit(cluster: Cluster, group: str, offset: int) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group}
    consumer = confluent_kafka.Consumer(settings)
    partitions = [
        confluent_kafka.TopicPartition("load", partition, offset) for partition in range(PARTITIONS)
    ]
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()


def replace_each_node(cluster: Cluster, topics: list[str], load: Load) -> None:
    """Stop a node cleanly and start it again; the next one follows once the cluster is whole."""
    for node_id in cluster.node_ids:
        cluster.terminate(node_id)
        cluster.restart(node_id)
        for topic in topics:
            wait_until_whole(cluster, topic)
        load.wait_for_more(50)


def test_a_cluster_of_0_1_0_is_upgraded_and_taken_back_under_load(
    old: Path, tmp_path: Path
) -> None:
    cluster = Replaced(nodes=3, directory=tmp_path, start_timeout_s=120)
    with running(old):
        assert version_of_new_processes() == "0.1.0"
        cluster.start()
    try:
        with connect(cluster.bootstrap) as client:
            client.create_topic("load", PARTITIONS, 3, {"min.insync.replicas": "2"})
            levels = finalized(client)
        with Load(cluster, "load", PARTITIONS) as load:
            commit(cluster, "keeper", 7)
            assert version_of_new_processes() == __version__
            replace_each_node(cluster, ["load"], load)
            with running(old):
                replace_each_node(cluster, ["load"], load)
        check_read_once(cluster, "load", load.acknowledged)
        with connect(cluster.bootstrap) as client:
            assert finalized(client) == levels
            assert {at.offset for at in client.committed("keeper").values()} == {7}
    finally:
        cluster.stop()
