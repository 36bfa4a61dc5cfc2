"""Apache Kafka's share consumers and its tools of share groups work against a cluster of three nodes here."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.java_programs import JavaProcess, Program
from tests.peers import CLASS_PATH
from tests.process.launch import Up, barnabas

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.timeout(400),
]  # fmt: skip
TOOLS = "org.apache.kafka.tools"
START_S = 180
SHARE_GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
CONSOLE = f"{TOOLS}.consumer.ConsoleShareConsumer"
VERIFIABLE = f"{TOOLS}.VerifiableShareConsumer"
PERFORMANCE = f"{TOOLS}.ShareConsumerPerformance"
ALL = set(range(1, 201))


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    up = Up(
        tmp_path_factory.mktemp("share") / "up", "--nodes", "3",
        "--set", "group.share.min.record.lock.duration.ms=1000",
    )  # fmt: skip
    try:
        yield up.wait_for_line("bootstrap: ", START_S).removeprefix("bootstrap: ")
    finally:
        up.end()


def run(*words: str) -> str:
    done = barnabas(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def prepare(bootstrap: str, topic: str, group: str) -> None:
    """A topic of three partitions with the numbers 1 to 200, and a group that begins at its start."""
    where = ("--bootstrap", bootstrap)
    run("topics", "create", topic, "-p", "3", "-r", "3", *where)
    run(
        "configs", "alter", "--group", group, "-s", "share.auto.offset.reset=earliest",
        "-s", "share.record.lock.duration.ms=5000", *where,
    )  # fmt: skip
    lines = "".join(f"{number}\n" for number in sorted(ALL))
    words = ["org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", bootstrap]
    produced = subprocess.run(
        ["java", "-Xmx256m", "-cp", CLASS_PATH, *words, "--topic", topic],
        input=lines, text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert produced.returncode == 0, produced.stderr


def tool(main: str, bootstrap: str, *words: str) -> str:
    done = subprocess.run(
        ["java", "-Xmx256m", "-cp", CLASS_PATH, main, "--bootstrap-server", bootstrap, *words],
        text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def numbers(lines: list[str], word: str) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith(word + " ")]


def test_members_accept_release_reject_and_renew_and_each_record_ends_once(
    bootstrap: str, tmp_path: Path
) -> None:
    prepare(bootstrap, "work", "workers")
    dropper = Program(
        "SharedWork", bootstrap, "work", "workers", "drops", "1", log=tmp_path / "drops.txt"
    )
    try:
        held = numbers(dropper.wait_for_all_lines(), "held")
    finally:
        dropper.kill()
    assert held
    worker = Program(
        "SharedWork", bootstrap, "work", "workers", "explicit", "200", log=tmp_path / "works.txt"
    )
    try:
        lines = worker.wait_for_all_lines()
    finally:
        worker.kill()
    assert not [line for line in lines if line.startswith("refused")]
    accepted, rejected = numbers(lines, "accepted"), numbers(lines, "rejected")
    assert Counter(accepted + rejected) == Counter(ALL)
    deliveries = {
        int(line.split()[1]): int(line.split()[2]) for line in lines if line.startswith("accepted ")
    }
    assert all(deliveries[number] >= 2 for number in held if number in deliveries)
    assert all(deliveries[number] >= 2 for number in accepted if number % 10 == 0)
    assert numbers(lines, "renewed")


def test_kafka_share_groups_tells_sets_back_and_deletes_a_group(
    bootstrap: str, tmp_path: Path
) -> None:
    prepare(bootstrap, "told", "tellers")
    worker = Program(
        "SharedWork", bootstrap, "told", "tellers", "explicit", "200", log=tmp_path / "works.txt"
    )
    try:
        worker.wait_for_all_lines()
    finally:
        worker.kill()
    assert "tellers" in tool(SHARE_GROUPS, bootstrap, "--list")
    about = ("--describe", "--group", "tellers")
    assert "Empty" in tool(SHARE_GROUPS, bootstrap, *about, "--state")
    rows = [line.split() for line in tool(SHARE_GROUPS, bootstrap, *about).splitlines()]
    lags = {row[2]: row[4] for row in rows if row and row[0] == "tellers"}
    assert set(lags) == {"0", "1", "2"}
    assert set(lags.values()) <= {"0", "-"}
    assert "0" in lags.values()
    tool(
        SHARE_GROUPS, bootstrap, "--reset-offsets", "--group", "tellers", "--topic", "told",
        "--to-earliest", "--execute",
    )  # fmt: skip
    again = tool(
        CONSOLE, bootstrap, "--topic", "told", "--group", "tellers", "--max-messages", "200",
        "--timeout-ms", "30000",
    )  # fmt: skip
    assert {int(line) for line in again.split() if line.isdigit()} == ALL
    tool(SHARE_GROUPS, bootstrap, "--delete-offsets", "--group", "tellers", "--topic", "told")
    tool(SHARE_GROUPS, bootstrap, "--delete", "--group", "tellers")
    assert "tellers" not in tool(SHARE_GROUPS, bootstrap, "--list")


def test_a_verifiable_member_acknowledges_every_record(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "verified", "verifiers")
    member = JavaProcess(
        VERIFIABLE, "--bootstrap-server", bootstrap, "--topic", "verified",
        "--group-id", "verifiers", "--acknowledgement-mode", "sync", "--max-messages", "200",
        log=tmp_path / "member.txt",
    )  # fmt: skip
    try:
        events = [json.loads(line) for line in member.wait_for_all_lines()]
    finally:
        member.kill()
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert all(event["success"] for event in acknowledged)
    assert sum(event["count"] for event in acknowledged) == len(ALL)


def test_kafka_share_consumer_perf_test_measures_a_group(bootstrap: str) -> None:
    prepare(bootstrap, "measured", "measurers")
    printed = tool(
        PERFORMANCE, bootstrap, "--topic", "measured", "--group", "measurers",
        "--num-records", str(len(ALL)), "--threads", "3", "--timeout", "60000",
    )  # fmt: skip
    names, values = (row.split(", ") for row in printed.strip().splitlines()[-2:])
    measured = dict(zip(names, values, strict=True))
    assert int(measured["data.consumed.in.nMsg"]) == len(ALL), printed


def test_a_killed_member_s_records_go_to_the_next_one(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "left", "leavers")
    killed = Program(
        "SharedWork", bootstrap, "left", "leavers", "implicit", "100000", log=tmp_path / "k.txt"
    )
    try:
        killed.wait_for_lines("accepted")
    finally:
        killed.kill()
    began = time.monotonic()
    heir = Program(
        "SharedWork", bootstrap, "left", "leavers", "explicit", "20", log=tmp_path / "h.txt"
    )
    try:
        lines = heir.wait_for_all_lines()
    finally:
        heir.kill()
    finished = numbers(lines, "accepted") + numbers(lines, "rejected")
    assert len(finished) == len(set(finished)) >= 20
    assert time.monotonic() - began < 60
