"""franz-go: one transaction after the other, without a pause."""

from __future__ import annotations

import subprocess

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.clients.checks import fresh
from tests.clients.committed import read_committed
from tests.clients.go_programs import program

pytestmark = [
    pytest.mark.process,
    pytest.mark.peers("go"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

COUNT = 300
TIMEOUT_S = 100.0


def run_transactions(bootstrap: str, partitions: int) -> None:
    """Each transaction ends as its client asks; committed ones are there once, aborted ones are not."""
    topic = fresh("loop")
    connected = connect(bootstrap)
    connected.create_topic(topic, partitions, 3, {"min.insync.replicas": "2"})
    connected.close()
    words = [str(program()), bootstrap, topic, str(partitions), fresh("loop"), str(COUNT)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{done.stdout[-300:]}{done.stderr[-2_000:]}"
    wanted = [number for number in range(COUNT) if number % 3 != 2]
    found: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    for record in read_committed(bootstrap, topic, len(wanted) * partitions):
        found[record.partition].append(int(record.value))
    assert found == dict.fromkeys(range(partitions), wanted)


@pytest.mark.parametrize("partitions", [1, 10])
def test_franz_go_commits_and_aborts_without_a_pause(cluster: Cluster, partitions: int) -> None:
    run_transactions(cluster.bootstrap, partitions)
