"""Reassignments held to a rate by real nodes, while producers continue unhindered."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.client.producers.record_accumulator import ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster

pytestmark = [pytest.mark.process, pytest.mark.slow]

MB = 1_000_000
RATE = 2 * MB
SIZE = 24 * MB


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"replica.fetch.max.bytes": "262144", "replica.fetch.response.max.bytes": "524288"}
    with Cluster(nodes=3, settings=settings) as cluster:
        yield cluster


class Command:
    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = cluster.bootstrap
        self.capfd = capfd

    def __call__(self, *words: str) -> str:
        self.capfd.readouterr()
        status = main([*words, "--bootstrap", self.bootstrap])
        printed = self.capfd.readouterr()
        assert status == 0, printed.err
        return printed.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def run(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capfd)


def fill(cluster: Cluster, topic: str, size: int) -> None:
    """Uncompressed, on one broker each."""
    value = bytes(range(256)) * 32
    with connect(cluster.bootstrap) as client, client.producer(ProducerSettings()) as producer:
        for number in range(size // len(value)):
            producer.send(ProducerRecord(topic, value, partition=number % 2))
        producer.flush()


def plan(run: Command, topic: str, directory: Path) -> tuple[Path, dict[int, list[int]]]:
    """Move each of two partitions to the broker after its own."""
    rows = run.json("topics", "describe", topic)[0]["partition_list"]
    then = {row["partition"]: [row["replicas"][0] % 3 + 1] for row in rows}
    file = directory / f"{topic}.json"
    partitions = [{"topic": topic, "partition": p, "replicas": r} for p, r in then.items()]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return file, then


def test_a_reassignment_takes_as_long_as_its_throttle_says(
    run: Command, cluster: Cluster, tmp_path: Path
) -> None:
    run("topics", "create", "slow", "-p", "2", "-r", "1")
    fill(cluster, "slow", SIZE)
    file, then = plan(run, "slow", tmp_path)
    began = time.monotonic()
    run("reassign", "execute", str(file), "--throttle", "2M")
    told = run.json("reassign", "throttle")
    assert set(told.values()) == {RATE}
    rows = run.json("reassign", "status")
    assert rows and sum(row["bytes_left"] for row in rows) > 0
    run("reassign", "status", "--wait")
    took = time.monotonic() - began
    # Half of it comes to each of two brokers: a burst of a second, then the rate.
    assert took >= (SIZE / 2 - RATE - 600_000) / RATE, took
    assert took < 30
    described = run.json("topics", "describe", "slow")[0]
    assert {row["partition"]: row["replicas"] for row in described["partition_list"]} == then
    assert "follower.replication.throttled.replicas" in described["configs"]
    run("reassign", "throttle", "--remove")
    assert run.json("reassign", "throttle") == {}
    assert run.json("topics", "describe", "slow")[0]["configs"] == {}


def test_a_throttle_is_raised_under_way_and_lifted_at_the_end(
    run: Command, cluster: Cluster, tmp_path: Path
) -> None:
    run("topics", "create", "stuck", "-p", "2", "-r", "1")
    fill(cluster, "stuck", SIZE)
    file, then = plan(run, "stuck", tmp_path)
    run("reassign", "execute", str(file), "--throttle", "1k")
    assert len(run.json("reassign", "status")) == 2
    fill(cluster, "stuck", MB)  # acknowledged by the old replica all the same
    run("reassign", "throttle", "100M")
    run("reassign", "execute", str(file), "--wait", "--throttle", "100M")
    run("reassign", "status", "--wait")
    run("reassign", "throttle", "--remove")
    described = run.json("topics", "describe", "stuck")[0]
    assert {row["partition"]: row["replicas"] for row in described["partition_list"]} == then
    assert described["configs"] == {} and run.json("reassign", "throttle") == {}


def test_a_cancelled_reassignment_takes_its_throttle_along(
    run: Command, cluster: Cluster, tmp_path: Path
) -> None:
    run("topics", "create", "cancelled", "-p", "2", "-r", "1")
    fill(cluster, "cancelled", SIZE)
    file, _ = plan(run, "cancelled", tmp_path)
    run("reassign", "execute", str(file), "--throttle", "1k")
    run("reassign", "cancel", str(file), "--preserve-throttles")
    assert run.json("reassign", "throttle") and run.json("reassign", "status") == []
    run("reassign", "execute", str(file), "--throttle", "1k")
    run("reassign", "cancel", str(file))
    assert run.json("reassign", "throttle") == {}
    assert run.json("topics", "describe", "cancelled")[0]["configs"] == {}


def lists(run: Command, topic: str) -> set[str]:
    configs = run.json("topics", "describe", topic)[0]["configs"]
    return set(configs.get("follower.replication.throttled.replicas", "").split(",")) - {""}


def test_a_throttled_move_stays_throttled_when_another_begins(
    run: Command, cluster: Cluster, tmp_path: Path
) -> None:
    run("topics", "create", "two", "-p", "2", "-r", "1")
    run("topics", "create", "more", "-p", "2", "-r", "1")
    fill(cluster, "two", SIZE // 4)
    fill(cluster, "more", SIZE // 4)
    file, then = plan(run, "two", tmp_path)
    rows = json.loads(file.read_text())["partitions"]
    halves = [tmp_path / "first.json", tmp_path / "second.json"]
    for half, row in zip(halves, rows, strict=True):
        half.write_text(json.dumps({"version": 1, "partitions": [row]}))
    both = {f"{p}:{replicas[0]}" for p, replicas in then.items()}

    run("reassign", "execute", str(halves[0]), "--throttle", "1k")
    run("reassign", "execute", str(halves[1]), "--throttle", "2k")
    assert lists(run, "two") == both
    assert set(run.json("reassign", "throttle").values()) == {2_000}
    elsewhere, _ = plan(run, "more", tmp_path)
    run("reassign", "execute", str(elsewhere), "--throttle", "3k")
    assert lists(run, "two") == both and len(lists(run, "more")) == 2
    run("reassign", "execute", str(file), "--throttle", "4k")  # what is on its way already
    assert set(run.json("reassign", "throttle").values()) == {4_000}
    told = run.json("reassign", "status")
    assert len(told) == 4 and all(row["waits_for"] is None for row in told)
    assert " s left" in run("reassign", "status")  # copied too seldom to be measured

    run("reassign", "throttle", "100M")
    run("reassign", "execute", str(file), "--throttle", "100M", "--wait")
    run("reassign", "status", "--wait")
    run("reassign", "throttle", "--remove")
    assert not lists(run, "two") and not lists(run, "more")
