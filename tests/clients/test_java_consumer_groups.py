"""Apache Kafka's Java consumer in both group protocols, and ``kafka-consumer-groups`` on what they make."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.checks import fresh
from tests.clients.test_kafka_tools import TOOLS, on, run
from tests.peers import CLASS_PATH

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.peers("kafka"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]
RECORDS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        yield cluster


def filled(cluster: Cluster) -> str:
    topic = fresh("java")
    run("TopicCommand", *on(cluster), "--create", "--topic", topic, "--partitions", "4")
    lines = "".join(f"record {n}\n" for n in range(RECORDS))
    run("ConsoleProducer", *on(cluster), "--topic", topic, stdin=lines)
    return topic


class Verifiable:
    """A ``kafka-verifiable-consumer``: it says in JSON what it is assigned and what it read."""

    def __init__(self, cluster: Cluster, topic: str, group: str, protocol: str) -> None:
        command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
        command += ["-cp", CLASS_PATH, f"{TOOLS}.VerifiableConsumer", *on(cluster)]
        command += ["--topic", topic, "--group-id", group, "--reset-policy", "earliest"]
        command += ["--group-protocol", protocol]
        self.owned: set[int] = set()
        self.read = 0
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            parts = {part["partition"] for part in told.get("partitions", ()) if "topic" in part}
            if told["name"] == "partitions_assigned":
                self.owned |= parts
            elif told["name"] == "partitions_revoked":
                self.owned -= parts
            elif told["name"] == "records_consumed":
                self.read += told["count"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._thread.join(30)


def until(condition: object, what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_reads_everything(cluster: Cluster, protocol: str) -> None:
    topic, group = filled(cluster), fresh("g")
    said = run(
        "consumer.ConsoleConsumer", *on(cluster), "--topic", topic, "--group", group,
        "--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000",
        "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    assert sorted(line for line in said.splitlines() if line.startswith("record ")) == sorted(
        f"record {n}" for n in range(RECORDS)
    )
    state = groups(cluster, "--describe", "--group", group, "--state")
    assert "Empty" in state
    kind = groups(cluster, "--list", "--type", protocol)
    assert group in kind.split()


def groups(cluster: Cluster, *arguments: str, fails: bool = False) -> str:
    return run("consumer.group.ConsumerGroupCommand", *on(cluster), *arguments, fails=fails)


def test_members_of_both_protocols_share_a_group_and_its_tools_tell_so(cluster: Cluster) -> None:
    topic, group = filled(cluster), fresh("g")
    old = Verifiable(cluster, topic, group, "classic")
    new = None
    try:
        until(lambda: old.read >= RECORDS, "the classic member's records")
        new = Verifiable(cluster, topic, group, "consumer")
        until(lambda: len(old.owned) == 2 and len(new.owned) == 2, "equal shares")
        assert not old.owned & new.owned
        assert "Stable" in groups(cluster, "--describe", "--group", group, "--state")
        members = groups(cluster, "--describe", "--group", group, "--members", "--verbose")
        told = [line.split()[-1] for line in members.splitlines() if line.startswith(f"{group} ")]
        assert sorted(told) == ["false", "true"], members  # which of them have been upgraded
        assert topic in groups(cluster, "--describe", "--group", group, "--offsets")
        refused = groups(cluster, "--delete", "--group", group)
        assert "not empty" in refused
        new.stop()
        until(lambda: len(old.owned) == 4, "the classic member's return to all")
        assert group in groups(cluster, "--list", "--type", "classic").split()
    finally:
        old.stop()
        if new is not None:
            new.stop()
    until(
        lambda: "Empty" in groups(cluster, "--describe", "--group", group, "--state"),
        "the empty group",
        90,
    )
    reset = groups(
        cluster, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"
    )
    assert reset.count(topic) == 4
    forgotten = groups(cluster, "--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in forgotten
    assert "successful" in groups(cluster, "--delete", "--group", group)


def test_kafka_consumer_groups_moves_a_group_by_every_way(cluster: Cluster, tmp_path: Path) -> None:
    topic, group = filled(cluster), fresh("g")

    def moved(*way: str) -> int:
        """Where the group's offsets are afterwards, together."""
        words = ("--group", group, "--topic", topic, "--reset-offsets", *way, "--execute")
        lines = [line.split() for line in groups(cluster, *words).splitlines()]
        found = [int(line[3]) for line in lines if line[:2] == [group, topic]]
        assert len(found) == 4, lines
        return sum(found)

    assert moved("--to-latest") == RECORDS
    assert moved("--by-duration", "PT1H") == 0
    assert moved("--to-offset", "1") <= 4
    kept = groups(
        cluster, "--group", group, "--all-topics", "--reset-offsets", "--to-latest", "--export"
    )
    assert moved("--to-earliest") == 0
    assert moved("--shift-by", "1") <= 4
    assert moved("--to-datetime", "2199-01-01T00:00:00.000") == RECORDS
    assert moved("--to-earliest") == 0
    exported = tmp_path / "offsets.csv"
    exported.write_text("".join(f"{line}\n" for line in kept.splitlines() if topic in line))
    words = ("--group", group, "--reset-offsets", "--from-file", str(exported), "--execute")
    groups(cluster, *words)
    assert moved("--to-current") == RECORDS
