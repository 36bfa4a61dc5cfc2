"""``barnabas reassign`` against three real nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.client.admin import BROKER
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


class Command:
    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = cluster.bootstrap
        self.capfd = capfd

    def __call__(self, *words: str, status: int = 0) -> str:
        self.capfd.readouterr()
        assert main([*words, "--bootstrap", self.bootstrap]) == status
        return self.capfd.readouterr().out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    def replicas(self, topic: str) -> list[list[int]]:
        described = self.json("topics", "describe", topic)[0]["partition_list"]
        return [partition["replicas"] for partition in described]


@pytest.fixture
def run(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capfd)


def test_a_broker_is_drained_and_the_cluster_balanced_again(run: Command, tmp_path: Path) -> None:
    run("topics", "create", "moving", "-p", "6", "-r", "2")
    file = tmp_path / "plan.json"
    run("reassign", "plan", "--drain", "3", "-t", "moving", "-o", str(file))
    planned = json.loads(file.read_text())
    assert planned["version"] == 1 and planned["partitions"]
    run("reassign", "execute", str(file), "--dry-run")
    assert any(3 in replicas for replicas in run.replicas("moving"))
    run("reassign", "execute", str(file), "--wait")
    assert all(sorted(replicas) == [1, 2] for replicas in run.replicas("moving"))
    assert run.json("reassign", "status") == []

    run("reassign", "plan", "--balance", "-t", "moving", "-o", str(file))
    run("reassign", "execute", str(file), "--wait")
    held = [broker for replicas in run.replicas("moving") for broker in replicas]
    assert sorted(held.count(broker) for broker in (1, 2, 3)) == [4, 4, 4]

    run("reassign", "plan", "-r", "3", "-t", "moving", "-o", str(file))
    run("reassign", "execute", str(file), "--wait")
    assert all(len(replicas) == 3 for replicas in run.replicas("moving"))


def test_a_reassignment_that_cannot_end_is_seen_and_cancelled(
    cluster: Cluster, run: Command, tmp_path: Path
) -> None:
    run("topics", "create", "stuck", "-p", "1", "-r", "1")
    before = run.replicas("stuck")[0]
    target = next(broker for broker in (1, 2, 3) if broker not in before)
    file = tmp_path / "plan.json"
    file.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [{"topic": "stuck", "partition": 0, "replicas": [target]}],
            }
        )
    )
    endpoints = cluster.bootstrap.split(",")
    run.bootstrap = ",".join(
        at for at, node in zip(endpoints, cluster.node_ids, strict=True) if node != target
    )
    cluster.pause(target)
    try:
        # The paused node may be the controller: the others continue without it.
        run("reassign", "execute", str(file))
        under_way = run.json("reassign", "status", "-t", "stuck")
        assert [(row["adding"], row["caught_up"]) for row in under_way] == [([target], [])]
        run("reassign", "cancel", str(file))
        assert run.json("reassign", "status") == []
        assert run.replicas("stuck") == [before]
    finally:
        cluster.resume(target)


def plan_file(directory: Path, topic: str, replicas: list[int]) -> str:
    file = directory / f"{topic}.json"
    row = {"topic": topic, "partition": 0, "replicas": replicas}
    file.write_text(json.dumps({"version": 1, "partitions": [row]}))
    return str(file)


def test_a_reassignment_to_a_dead_broker_is_reported_and_plans_use_its_target(
    cluster: Cluster, run: Command, tmp_path: Path
) -> None:
    run("topics", "create", "empty", "-p", "1", "-r", "1")
    (before,) = run.replicas("empty")
    target = next(broker for broker in (1, 2, 3) if broker not in before)
    file = plan_file(tmp_path, "empty", [target])
    endpoints = cluster.bootstrap.split(",")
    run.bootstrap = ",".join(
        at for at, node in zip(endpoints, cluster.node_ids, strict=True) if node != target
    )
    cluster.kill(target)
    try:

        def is_fenced() -> bool:
            brokers = run.json("cluster", "describe")["brokers"]
            return bool(next(b["fenced"] for b in brokers if b["node_id"] == target))

        cluster.wait_for(is_fenced, "the dead broker to be fenced")
        run("reassign", "execute", file)
        (row,) = run.json("reassign", "status")
        assert row["waits_for"] == f"broker {target}, which is fenced"
        assert (row["bytes_left"], row["seconds_left"]) == (0, None)
        shown = run("reassign", "status")
        assert "nothing moves now" in shown and row["waits_for"] in shown

        drained = json.loads(run("reassign", "plan", "--drain", str(target), "-t", "empty"))
        assert [len(p["replicas"]) for p in drained["partitions"]] == [1]
        grown = json.loads(run("reassign", "plan", "-r", "2", "-t", "empty"))
        (replicas,) = [p["replicas"] for p in grown["partitions"]]
        assert replicas[0] == target and len(replicas) == 2
        assert "way" in run("reassign", "execute", file)  # again: nothing to ask
    finally:
        cluster.restart(target)
    run("reassign", "status", "--wait")
    assert run.replicas("empty") == [[target]]


def test_a_plan_names_no_broker_that_accepts_no_replicas(cluster: Cluster, run: Command) -> None:
    run("topics", "create", "pair", "-p", "6", "-r", "2")
    with connect(cluster.bootstrap) as client:
        cordon = client.admin.alter_configs(BROKER, "3", {"cordoned.log.dirs": "*"})
        client.call(cordon)
        try:

            def planned(*words: str) -> list[list[int]]:
                document = json.loads(run("reassign", "plan", *words, "-t", "pair"))
                return [partition["replicas"] for partition in document["partitions"]]

            def is_refused() -> bool:
                words = ["reassign", "plan", "--drain", "2", "-t", "pair"]
                return main([*words, "--bootstrap", run.bootstrap]) == 1

            cluster.wait_for(
                is_refused, "broker 3 to be cordoned: no broker is left that takes any"
            )
            present = run.replicas("pair")
            assert len(planned("-r", "1")) == 6
            for replicas in planned("--balance"):
                assert 3 not in replicas or any(sorted(p) == sorted(replicas) for p in present)
            run("reassign", "plan", "-r", "3", "-t", "pair", status=1)
        finally:
            client.call(client.admin.alter_configs(BROKER, "3", {"cordoned.log.dirs": None}))
    main(["reassign", "plan", "--drain", "99", "--bootstrap", run.bootstrap])
    assert "there is no broker 99: the brokers are 1,2,3" in run.capfd.readouterr().err


def test_a_malformed_plan_is_refused_in_a_sentence(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t"}]}')
    run("reassign", "execute", str(file), status=2)
    file.write_text('{"version": 1, "partitions": [{"topic":"no","partition":0,"replicas":[1]}]}')
    assert main(["reassign", "execute", str(file), "--bootstrap", run.bootstrap]) == 1
    run("reassign", "plan", status=2)
    run("reassign", "plan", "--drain", "x", status=2)
