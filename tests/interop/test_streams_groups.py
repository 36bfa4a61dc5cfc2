"""Kafka Streams under the streams protocol (KIP-1071) against our coordinators, and Kafka's beside them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.records import ProducerRecord
from barnabas.host.client import BlockingProducer, Connected, connect
from barnabas.testing.cluster import Cluster
from tests.interop.java_programs import Program
from tests.interop.test_java_transactions import committed_of
from tests.peers import CLASS_PATH
from tests.process.launch import barnabas
from tests.trio import System, Trio

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.timeout(600),
]  # fmt: skip
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
WORDS = ("alder", "birch", "cedar", "elm", "fir", "oak", "yew")
PARTITIONS = 3
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "500",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
PATIENCE_S = 240.0


@contextmanager
def application(
    bootstrap: str, folder: Path, name: str, guarantee: str, instances: int = 1
) -> Iterator[list[Program]]:
    """Instances of ``CountedWords``, killed at the end."""
    programs: list[Program] = []
    try:
        for number in range(instances):
            programs.append(start(bootstrap, folder, name, guarantee, f"{number}"))
        yield programs
    finally:
        for program in programs:
            program.kill()


def start(bootstrap: str, folder: Path, name: str, guarantee: str, state: str) -> Program:
    arguments = (bootstrap, f"{name}-lines", f"{name}-counts", name)
    state_folder = str(folder / f"{name}-state-{state}")
    log = folder / f"{name}-{state}.log"
    return Program("CountedWords", *arguments, state_folder, "2", guarantee, log=log)


def prepare(connected: Connected, name: str) -> None:
    connected.create_topic(f"{name}-lines", PARTITIONS, 3)
    connected.create_topic(f"{name}-counts", PARTITIONS, 3)


def feed(producer: BlockingProducer, name: str, numbers: Iterable[int]) -> None:
    """Line `n` has every word once."""
    for number in numbers:
        line = " ".join(WORDS).encode()
        producer.send(ProducerRecord(f"{name}-lines", line, b"%d" % number))


def counts_of(connected: Connected, name: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for record in committed_of(connected, f"{name}-counts"):
        found[(record.key or b"").decode()].append(int(record.value or b""))
    return found


def wait_for_counts(connected: Connected, name: str, count: int) -> dict[str, list[int]]:
    """Until every word was counted `count` times."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = counts_of(connected, name)
        if all(found.get(word) and max(found[word]) >= count for word in WORDS):
            return found
        highest = {word: max(found.get(word, [0])) for word in WORDS}
        assert time.monotonic() < deadline, f"of {count}: {highest}"
        time.sleep(1)


def tool(bootstrap: str, *words: str) -> str:
    """The output of ``kafka-streams-groups``."""
    done = subprocess.run(
        ["java", "-Xmx256m", "-cp", CLASS_PATH, STREAMS_GROUPS, "--bootstrap-server", bootstrap, *words],
        text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def described(bootstrap: str, name: str, *words: str) -> list[str]:
    """The lines of ``--describe``, in order, without the blanks between columns."""
    text = tool(bootstrap, "--describe", "--group", name, *words)
    return sorted(re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip())


def wait_until_stable(bootstrap: str, name: str, members: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        lines = []
        if name in tool(bootstrap, "--list").split():  # the first member joined
            lines = described(bootstrap, name, "--state")
        if any(" Stable " in line and line.endswith(f" {members}") for line in lines):
            return
        assert time.monotonic() < deadline, lines
        time.sleep(1)


def test_an_application_counts_exactly_once_through_deaths(tmp_path: Path) -> None:
    """A node is killed every ten seconds, and one instance for good."""
    with Cluster(nodes=3, settings=SETTINGS) as cluster, connect(cluster.bootstrap) as connected:
        prepare(connected, "trees")
        done = barnabas(
            "configs", "alter", "--group", "trees", "-s", "streams.num.standby.replicas=1",
            "-s", "streams.session.timeout.ms=45000", "--bootstrap", cluster.bootstrap,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        guarantee = "exactly_once_v2"
        with application(cluster.bootstrap, tmp_path, "trees", guarantee, 2) as programs:
            with connected.producer() as producer:
                feed(producer, "trees", range(100))
            wait_for_counts(connected, "trees", 100)
            for turn, victim in enumerate(cluster.node_ids):
                cluster.kill(victim)
                if turn == 1:
                    programs[0].kill()
                began = time.monotonic()
                with connected.producer() as producer:
                    feed(producer, "trees", range(100 * (turn + 1), 100 * (turn + 2)))
                cluster.restart(victim)
                time.sleep(max(0.0, 10 - (time.monotonic() - began)))
            found = wait_for_counts(connected, "trees", 400)
            assert not [line for line in programs[1].lines if line.startswith("failed")]
        assert found == {word: list(range(1, 401)) for word in WORDS}


def test_kafka_streams_groups_tells_resets_and_deletes_a_group(tmp_path: Path) -> None:
    with Cluster(nodes=3, settings=SETTINGS) as cluster, connect(cluster.bootstrap) as connected:
        bootstrap = cluster.bootstrap
        prepare(connected, "told")
        with connected.producer() as producer:
            feed(producer, "told", range(30))
        with application(bootstrap, tmp_path, "told", "at_least_once") as programs:
            wait_until_stable(bootstrap, "told", 2)
            wait_for_counts(connected, "told", 30)
            assert "told" in tool(bootstrap, "--list")
            members = described(bootstrap, "told", "--members", "--verbose")
            active = Counter(re.findall(r" ACTIVE: (.*?) TARGET", " ".join(members)))
            assert sum(active.values()) == 2
            offsets = described(bootstrap, "told", "--offsets")
            assert sum("told-lines" in line for line in offsets) == PARTITIONS
            programs[0].end_input()
            assert programs[0].wait() == 0
        assert any(" Empty " in line for line in described(bootstrap, "told", "--state"))
        reset = tool(
            bootstrap, "--reset-offsets", "--group", "told", "--all-input-topics",
            "--to-earliest", "--execute",
        )  # fmt: skip
        assert "told-lines" in reset
        tool(bootstrap, "--delete", "--group", "told")
        assert "told" not in tool(bootstrap, "--list")
        left = barnabas("topics", "list", "--json", "--bootstrap", bootstrap)
        names = {topic["name"] for topic in json.loads(left.stdout)}
        assert {"told-lines", "told-counts"} <= names


def group_of(bootstrap: str, name: str) -> dict[str, Any]:
    """The group as the tool shows it, without what differs from run to run."""
    member = re.compile(r"^(\S+ \d+ \d+) \S+ (streams \d+) \S+ \S+ (.*)$")
    lines = described(bootstrap, name, "--members", "--verbose")
    members = sorted(" ".join(found.groups()) for found in map(member.match, lines) if found)
    state = [line for line in described(bootstrap, name, "--state", "--verbose") if name in line]
    return {"members": members, "state": re.sub(r" \S+:\d+ \(\d\)", "", state[0])}


@pytest.mark.parametrize("first", ["kafka", "barnabas"])
def test_each_coordinator_continues_the_group_of_the_other(first: System, tmp_path: Path) -> None:
    """The members are killed, so that the next coordinator has them in the group still."""
    other: System = "barnabas" if first == "kafka" else "kafka"
    trio = Trio(tmp_path, SETTINGS)
    trio.format(first)
    with trio.running(first):
        trio.wait_for_brokers()
        with connect(trio.bootstrap) as connected:
            prepare(connected, "kept")
            with connected.producer() as producer:
                feed(producer, "kept", range(20))
            with application(trio.bootstrap, tmp_path, "kept", "exactly_once_v2"):
                wait_until_stable(trio.bootstrap, "kept", 2)
                wait_for_counts(connected, "kept", 20)
                before = group_of(trio.bootstrap, "kept")
    assert len(before["members"]) == 2
    with trio.running(other):
        trio.wait_for_brokers()
        assert group_of(trio.bootstrap, "kept") == before
        with connect(trio.bootstrap) as connected:
            with connected.producer() as producer:
                feed(producer, "kept", range(20, 40))
            with application(trio.bootstrap, tmp_path, "kept", "exactly_once_v2"):
                found = wait_for_counts(connected, "kept", 40)
    assert found == {word: list(range(1, 41)) for word in WORDS}
