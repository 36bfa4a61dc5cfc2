"""A node says within a second what makes it not ready, and why: drills with real processes.

The other drills are in `tests/unit/monitoring/test_readiness_drills.py`, with real nodes on simulated time.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from barnabas.testing.cluster import Cluster

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]
PATIENCE_S = 60.0
NOTICED_S = 1.0
QUORUM_NOTICED_S = 1.5
"""A leader says after nine tenths of a second that no majority fetches; the machine may be busy."""
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
