"""What a real cluster tells of itself: events with reasons, refusals, states, the tree of metadata."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.testing.cluster import Cluster

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "12000"}
    with Cluster(nodes=3, settings=settings) as cluster:
        yield cluster


class Command:
    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = cluster.bootstrap
        self.capfd = capfd

    def __call__(self, *words: str, status: int = 0) -> str:
        self.capfd.readouterr()
        told = main([*words, "--bootstrap", self.bootstrap])
        printed = self.capfd.readouterr()
        assert told == status, printed.err
        return printed.err if status else printed.out

    def events(self, *words: str) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for line in self("cluster", "events", "--json", *words).split("\n")
            if line
        ]


@pytest.fixture
def run(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capfd)


def test_refusals_stand_among_the_decisions(run: Command) -> None:
    run("topics", "create", "told", "-p", "2", "-r", "3")
    run("topics", "create", "told", status=1)
    run("topics", "create", "wide", "-r", "9", status=1)
    refused = run.events("--kind", "refusal")
    assert [event["change"] for event in refused] == [
        "TOPIC_ALREADY_EXISTS", "INVALID_REPLICATION_FACTOR",
    ]  # fmt: skip
    assert "9" in refused[1]["reason"] and refused[1]["offset"] == -1
    about = run.events("--about", "told", "--kind", "topic", "--kind", "partition")
    assert [event["subject"] for event in about] == ["told", "told-0", "told-1"]
    led = run.events("--kind", "quorum")
    assert (
        led and "leads the quorum in epoch" in led[0]["change"] and "votes of" in led[0]["reason"]
    )
    assert len(run.events("--last", "1")) == 1


def test_a_follower_of_events_sees_the_next_one(run: Command, cluster: Cluster) -> None:
    words = ["cluster", "events", "--follow", "--json", "--bootstrap", cluster.bootstrap]
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", *words, "--about", "later"],
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        try:
            assert following.stdout is not None
            run("topics", "create", "later", "-p", "1", "-r", "3")
            assert json.loads(following.stdout.readline())["subject"] == "later"
            run("topics", "create", "later", status=1)
            told = json.loads(following.stdout.readline())
            while told["kind"] != "refusal":
                told = json.loads(following.stdout.readline())
            assert told["change"] == "TOPIC_ALREADY_EXISTS"
        finally:
            following.terminate()


def test_the_metadata_is_a_tree_on_the_cluster_and_in_a_snapshot(
    run: Command, cluster: Cluster
) -> None:
    run("topics", "create", "leaf", "-p", "120", "-r", "3")
    assert "byName/" in run("metadata", "tree", "/topics").split()
    assert "29/" not in run("metadata", "tree", "/topics/byName/leaf").split()
    partition = json.loads(run("metadata", "cat", "/topics/byName/leaf/29"))
    assert partition["state"] == "Online" and len(partition["isr"]) == 3
    assert "nothing is at" in run("metadata", "cat", "/nowhere", status=1)
    folder = cluster.directory / "cluster"
    snapshots = sorted(folder.glob("**/__cluster_metadata-0/*.checkpoint"))
    assert snapshots, [str(found) for found in Path(folder).glob("**/__cluster_metadata-0/*")]
    names = run("metadata", "tree", "/", "--snapshot", str(snapshots[-1])).split()
    assert {"topics/", "cluster/", "features"} <= set(names)
    brokers = json.loads(run("metadata", "cat", "/cluster/brokers", "-s", str(snapshots[-1])))
    assert sorted(brokers) == ["1", "2", "3"]


def test_a_partition_says_its_state_and_why(run: Command, cluster: Cluster) -> None:
    run("topics", "create", "state", "-p", "3", "-r", "1")
    before = json.loads(run("topics", "describe", "state", "--json"))[0]["partition_list"]
    assert [row["state"] for row in before] == ["Online"] * 3
    assert {row["last_move"]["before"] for row in before} == {"NonExistent"}
    assert all(row["last_change"]["what"].startswith("created, led by ") for row in before)
    active = json.loads(run("quorum", "describe", "--json"))["leader_id"]
    alone = next(row for row in before if row["leader"] != active)
    cluster.kill(alone["leader"])
    try:
        cluster.wait_for(lambda: _state(run, alone["partition"])["state"] == "Offline", "Offline")
        told = _state(run, alone["partition"])
        counted = json.loads(run("cluster", "describe", "--json"))["partitions"]
        assert counted["Offline"] == 1 and counted["UnderReplicated"] > 0
        assert told["last_move"]["after"] == "Offline" and told["last_move"]["reason"]
        assert told["last_move"]["before"] == "Online"
        assert told["last_change"]["what"] == "went offline, " + f"{alone['leader']} left the ISR"
        number = str(alone["partition"])
        (only,) = json.loads(run("topics", "describe", "state", "-p", number, "--json"))
        assert [row["partition"] for row in only["partition_list"]] == [alone["partition"]]
        assert "no partition 9" in run("topics", "describe", "state", "-p", "9", status=1)
        everything = run("topics", "describe")
        assert "state  id" in everything and "went offline" in everything
    finally:
        cluster.restart(alone["leader"])
    cluster.wait_for(lambda: _state(run, alone["partition"])["state"] == "Online", "Online again")


def _state(run: Command, partition: int) -> dict[str, Any]:
    rows = json.loads(run("topics", "describe", "state", "--json"))[0]["partition_list"]
    found: dict[str, Any] = rows[partition]
    return found
