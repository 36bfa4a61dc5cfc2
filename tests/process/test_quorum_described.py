"""``barnabas quorum describe`` of a running cluster, asked through brokers and at controllers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from tests.process.launch import barnabas

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


def described(*words: str) -> Any:
    done = barnabas("quorum", "describe", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def controller(cluster: Cluster, node: int) -> str:
    return str(cluster.node(node)["listeners"]["CONTROLLER"])


def test_status_names_the_leader_and_who_votes(cluster: Cluster) -> None:
    told = described("--status", "--bootstrap", cluster.bootstrap)
    assert told["leader_id"] in (1, 2, 3) and told["leader_epoch"] > 0
    assert [voter["node_id"] for voter in told["voters"]] == [1, 2, 3]
    assert told["voters"][0]["endpoints"] == [f"CONTROLLER://{controller(cluster, 1)}"]
    assert told["observers"] == [] and told["cluster_id"]


def test_replication_has_kafkas_columns(cluster: Cluster) -> None:
    rows = described("--replication", "--exact", "--bootstrap", cluster.bootstrap)
    assert sorted(row["status"] for row in rows) == ["Follower", "Follower", "Leader"]
    assert all(row["lag"] >= 0 and row["last_fetch_timestamp"] > 0 for row in rows)
    done = barnabas(
        "quorum", "describe", "--replication", "--exact", "--bootstrap", cluster.bootstrap
    )
    header, *lines = done.stdout.splitlines()
    assert header.split() == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    ]
    assert len(lines) == 3 and all(len(line.split()) == 7 for line in lines)


def test_the_leader_tells_its_metrics(cluster: Cluster) -> None:
    told = described("--metrics", "--bootstrap", cluster.bootstrap)
    assert told["current-state"] == "leader" and told["number-of-voters"] == 3
    assert told["commit-latency-max"] > 0 and 0 < told["poll-idle-ratio-avg"] <= 1


@pytest.mark.parametrize("node", [1, 2, 3])
def test_any_controller_can_be_asked(cluster: Cluster, node: int) -> None:
    told = described("--bootstrap-controller", controller(cluster, node))
    assert [voter["node_id"] for voter in told["voters"]] == [1, 2, 3]
    assert told["cluster_id"]


def test_describing_the_quorum_of_a_node_that_is_no_controller_is_refused(cluster: Cluster) -> None:
    done = barnabas("quorum", "describe", "--bootstrap-controller", cluster.bootstrap)
    assert done.returncode == 1 and "ENDPOINT_TYPE" in done.stderr
    both = barnabas("quorum", "describe", "--bootstrap-controller", "a:1", "--bootstrap", "b:1")
    assert both.returncode == 2


def test_the_dry_run_of_describing_names_the_node_and_sends_nothing() -> None:
    absent = "127.0.0.1:1"
    tried = barnabas("quorum", "describe", "--dry-run", "--bootstrap", absent)
    assert tried.returncode == 0 and f"broker of {absent}" in tried.stdout
    tried = barnabas("quorum", "describe", "--dry-run", "--bootstrap-controller", absent)
    assert tried.returncode == 0 and f"controller of {absent}" in tried.stdout


def test_static_voters_cannot_be_changed_and_the_dry_run_says_so(cluster: Cluster) -> None:
    tried = barnabas(
        "quorum", "remove-controller", "3", "--dry-run", "--bootstrap", cluster.bootstrap
    )
    assert tried.returncode == 1 and "static" in tried.stderr
    assert "survives the loss of 0" in tried.stdout
