"""The commands and the blocking client against three real node processes, one of them killed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.producers.record_accumulator import ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.record.compression import Codec
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from tests.process.launch import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(three_nodes: Cluster) -> Iterator[Cluster]:
    """Whole again for the next test where one ended half way."""
    yield three_nodes
    for node_id in (1, 2, 3):
        if not three_nodes.is_alive(node_id):
            three_nodes.restart(node_id)


class Command:
    """Runs commands against the cluster; gives what they print as JSON."""

    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self.where = ["--bootstrap", cluster.bootstrap]
        self.capfd = capfd

    def __call__(self, *words: str, status: int = 0) -> str:
        self.capfd.readouterr()
        assert main([*words, *self.where]) == status, self.capfd.readouterr().err
        printed = self.capfd.readouterr()
        return printed.err if status else printed.out


@pytest.fixture
def run(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capfd)


def test_topics_live_and_die(run: Command) -> None:
    told = json.loads(run("topics", "create", "x", "-p", "4", "-r", "3", "--json"))
    assert told[0]["partitions"] == 4 and told[0]["replication_factor"] == 3
    assert "exists already" in run("topics", "create", "x", status=1)
    assert [t["name"] for t in json.loads(run("topics", "list", "--json"))] == ["x"]
    described = json.loads(run("topics", "describe", "x", "--offsets", "--json"))[0]
    assert [len(p["isr"]) for p in described["partition_list"]] == [3, 3, 3, 3]
    assert [p["end"] for p in described["partition_list"]] == [0, 0, 0, 0]
    assert "give --yes" in run("topics", "delete", "x", status=2)
    assert "would be deleted" in run("topics", "delete", "x", "--dry-run")
    run("topics", "delete", "x", "--yes")
    assert "no such topic" in run("topics", "describe", "x", status=1)


def test_lines_go_in_and_come_out(run: Command, tmp_path: Path) -> None:
    run("topics", "create", "lines", "-p", "3", "-r", "3")
    file = tmp_path / "lines"
    file.write_text("".join(f"{i}\n" for i in range(2000)))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        run("produce", "lines", str(file), "--compression", codec)
    got = run("consume", "lines", "--exit").split()
    assert sorted(map(int, got)) == sorted(list(range(2000)) * 5)
    shared = run("consume", "lines", "--group", "g", "-f", "-n", "10000").split()
    assert len(shared) == 10_000
    described = json.loads(run("groups", "describe", "g", "--json"))
    assert sum(row["committed"] for row in described["partitions"]) == 10_000
    assert {row["lag"] for row in described["partitions"]} == {0}
    assert [g["group_id"] for g in json.loads(run("groups", "list", "--json"))] == ["g"]
    assert len(run("consume", "lines", "--group", "h", "--exit").split()) == 10_000
    assert run("consume", "lines", "--group", "h", "--exit") == ""
    assert len(run("consume", "--include", "li.*", "--exit").split()) == 10_000
    assert len(run("consume", "--include", "li.*", "--group", "i", "--exit").split()) == 10_000


def test_a_consumer_that_stops_reading_leaves_the_group_at_once(
    run: Command, cluster: Cluster, tmp_path: Path
) -> None:
    run("topics", "create", "unread", "-p", "1", "-r", "3")
    file = tmp_path / "lines"
    file.write_text("".join(f"{number:0100}\n" for number in range(5000)))  # more than a pipe takes
    run("produce", "unread", str(file))
    command = [sys.executable, "-m", "barnabas", "consume", "unread", "-g", "readers", "-f"]
    errors = tmp_path / "errors"
    with errors.open("wb") as stderr:
        reader = subprocess.Popen([*command, *run.where], stdout=subprocess.PIPE, stderr=stderr)
    try:
        assert reader.stdout is not None
        assert int(reader.stdout.readline()) == 0
        reader.stdout.close()
        assert reader.wait(30) == 1
    finally:
        reader.kill()
        reader.wait()
    assert errors.read_bytes() == b""
    assert json.loads(run("groups", "describe", "readers", "--json"))["members"] == []


def test_a_refused_line_is_reported_while_the_next_one_is_awaited(
    run: Command, tmp_path: Path
) -> None:
    run("topics", "create", "narrow", "-p", "1", "-r", "3", "-c", "max.message.bytes=200")
    command = [sys.executable, "-m", "barnabas", "produce", "narrow", *run.where]
    errors = tmp_path / "errors"
    with errors.open("wb") as stderr:
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stderr)
    try:
        assert writer.stdin is not None
        writer.stdin.write(b"v" * 1000 + b"\n")
        writer.stdin.flush()
        assert writer.wait(30) == 1
    finally:
        writer.kill()
        writer.communicate()
    assert b"MESSAGE_TOO_LARGE" in errors.read_bytes()


def levels(run: Command) -> dict[str, int]:
    told = json.loads(run("features", "describe", "--json"))
    return {found["name"]: found["level"] for found in told["features"]}


def wait_for_level(cluster: Cluster, run: Command, name: str, level: int) -> None:
    """The broker that is asked may learn it a moment later."""
    cluster.wait_for(lambda: levels(run)[name] == level, f"{name} at {level}")


def test_features_go_down_and_up(cluster: Cluster, run: Command) -> None:
    before = levels(run)
    assert before["metadata.version"] == 33 and before["group.version"] == 1
    down = ["features", "downgrade", "-f", "group.version=0"]
    assert "would go from 1 to 0" in run(*down, "--dry-run")
    assert levels(run) == before
    assert "safe or unsafe downgrade" in run(
        "features", "upgrade", "-f", "group.version=0", status=1
    )
    assert "group.version went from 1 to 0" in run(*down)
    wait_for_level(cluster, run, "group.version", 0)
    assert "only supports versions" in run("features", "upgrade", "-f", "group.version=7", status=1)
    assert "went from 0 to 1" in run("features", "upgrade", "--release", "4.4")
    wait_for_level(cluster, run, "group.version", 1)
    assert "nothing to do" in run("features", "upgrade", "-r", "4.4")
    assert levels(run) == before
    assert "might delete metadata" in run("features", "downgrade", "-r", "4.2", status=1)
    assert "either --release or --feature" in run("features", "upgrade", status=2)
    kinds = run("cluster", "events", "--kind", "feature", "--json")
    reasons = [json.loads(line)["reason"] for line in kinds.splitlines()]
    assert reasons.count("asked by User:ANONYMOUS, client barnabas-cli") == 2, reasons


def test_only_a_broker_that_is_gone_is_forgotten(run: Command) -> None:
    assert "is active, and would register again" in run(
        "cluster", "unregister", "--id", "1", status=1
    )
    assert "99" in run("cluster", "unregister", "--id", "99", status=1)


def test_the_cluster_describes_itself(run: Command) -> None:
    told = json.loads(run("cluster", "describe", "--json"))
    assert [b["node_id"] for b in told["brokers"]] == [1, 2, 3]
    quorum = json.loads(run("quorum", "describe", "--json"))
    assert sorted(v["node_id"] for v in quorum["voters"]) == [1, 2, 3]
    assert quorum["leader_id"] in (1, 2, 3) and quorum["leader_epoch"] > 0
    assert told["controller_id"] == quorum["leader_id"]
    assert f"controller {quorum['leader_id']}" in run("cluster", "describe")


def test_the_active_controller_tells_what_it_counts(run: Command, cluster: Cluster) -> None:
    run("topics", "create", "counted", "-p", "5", "-r", "3")
    told = json.loads(run("cluster", "metrics", "--json"))
    kafkas = {
        name.partition("name=")[2]: value
        for name, value in told.items()
        if name.startswith("kafka.controller:type=KafkaController,")
    }
    assert kafkas["ActiveControllerCount"] == 1 and kafkas["OfflinePartitionsCount"] == 0
    assert (kafkas["ActiveBrokerCount"], kafkas["FencedBrokerCount"]) == (3, 0)
    partitions = kafkas["GlobalPartitionCount"]
    assert partitions >= 5 and told["barnabas.controller:type=Partitions,name=Online"] == partitions
    controllers = ",".join(cluster.node(n)["listeners"]["CONTROLLER"] for n in cluster.node_ids)
    words = ["cluster", "metrics", "--json", "--bootstrap-controller", controllers]
    assert main(words) == 0
    asked_there = json.loads(run.capfd.readouterr().out)
    assert asked_there.keys() == told.keys()


def test_names_are_whole_in_a_pipe(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = run("cluster", "metrics").split()
    assert set(json.loads(run("cluster", "metrics", "--json"))) <= set(shown)


TITLE = "\x1b]0;title\x07"
"""A sequence with which a terminal changes its window's title; tables have none of their own."""


def in_a_terminal(*words: str) -> str:
    """Everything that a command writes where its output is a terminal."""
    own, terminal = pty.openpty()
    command = [sys.executable, "-m", "barnabas", *words]
    with subprocess.Popen(command, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        written = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(own, 65536):
                written += part
        os.close(own)
    assert process.returncode == 0, written
    return written.decode()


def test_a_terminal_obeys_no_name_of_the_cluster(cluster: Cluster) -> None:
    """A group, a member's client and a record's value are what any client chooses."""
    at, group = ("--bootstrap", cluster.bootstrap), f"g{TITLE}\nrow"
    assert main(["topics", "create", "shown", "-p", "1", "-r", "3", *at]) == 0
    with connect(cluster.bootstrap, client_id=f"c{TITLE}") as client:
        with client.producer() as producer:
            producer.send(ProducerRecord("shown", TITLE.encode(), key=b"k"))
        settings = ConsumerSettings(auto_offset_reset="earliest")
        with client.consumer(group, settings) as consumer:
            consumer.inner.subscribe(["shown"])
            assert consumer.poll(20_000)
            consumer.commit()
            shown = [
                in_a_terminal("groups", "list", *at),
                in_a_terminal("groups", "describe", group, *at),
                in_a_terminal("consume", "shown", "--from-beginning", "-n", "1", *at),
            ]
    for text in shown:
        assert TITLE not in text
        assert r"\x1b]0;title\x07" in text.replace("\r\n", "")
    assert not [line for line in shown[0].splitlines() if line.startswith("row")]


def test_two_consumers_share_and_one_takes_over(cluster: Cluster) -> None:
    settings = ConsumerSettings(auto_offset_reset="earliest")
    with connect(cluster.bootstrap) as one, connect(cluster.bootstrap) as two:
        one.create_topic("shared", 4, 3)
        first, second = one.consumer("s", settings), two.consumer("s", settings)
        first.inner.subscribe(["shared"])
        second.inner.subscribe(["shared"])

        def poll_until(wanted: tuple[int, int]) -> None:
            for _ in range(600):
                first.poll(20)
                second.poll(20)
                if (len(first.inner.assignment), len(second.inner.assignment)) == wanted:
                    return
            raise AssertionError((first.inner.assignment, second.inner.assignment))

        poll_until((2, 2))
        second.close()
        poll_until((4, 0))
        first.close()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_killed_leader_loses_and_doubles_nothing(cluster: Cluster, codec: Codec) -> None:
    topic = f"killed-{codec.name.lower()}"
    with connect(cluster.bootstrap) as client:
        client.create_topic(topic, 2, 3, {"min.insync.replicas": "2"})
        settings = ProducerSettings(codec=codec, linger_ms=1)
        with client.producer(settings) as producer:
            sent = []
            for i in range(3000):
                record = ProducerRecord(topic, b"%d" % i, partition=i % 2)
                sent.append(producer.send(record))
                if i % 100 == 0:
                    client.run_for(5)
                if i == 1500:
                    victim = client.topic(topic).partitions[0].leader
                    cluster.kill(victim)
        offsets = {(o.result().partition, o.result().offset) for o in sent}
        assert len(offsets) == 3000
        read = list(client.read([topic]))
        for partition in (0, 1):
            values = [int(r.value or b"") for r in read if r.partition == partition]
            assert values == list(range(partition, 3000, 2))
        cluster.restart(victim)
        cluster.wait_for(
            lambda: all(len(p.isr) == 3 for p in client.topic(topic).partitions.values()),
            "the ISR to be whole again",
        )
        runs = client.fetch({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 700})
        assert {run.error for run in runs.values()} == {None}


def test_records_are_copied_byte_for_byte(run: Command, cluster: Cluster, tmp_path: Path) -> None:
    for topic in ("original", "copy"):
        run("topics", "create", topic, "-p", "2", "-r", "3", "-c", "retention.ms=-1")
    headers = (("h", b"\xff"), ("n", None), ("h", b""))
    hostile = b'\x00\xff\n\t"\\\xc3('
    records = [
        ProducerRecord("original", hostile, b"\xfe", 0, 1_700_000_000_000, headers),
        ProducerRecord("original", None, None, 1, 1_700_000_000_001),
        ProducerRecord("original", b"", b"", 1, 1_700_000_000_002),
    ]
    with connect(cluster.bootstrap) as client, client.producer() as producer:
        for record in records:
            producer.send(record)
    file = tmp_path / "records"
    file.write_text(run("consume", "original", "--exit", "--json"))
    run("produce", "copy", str(file), "--json-records", "--transaction")
    with connect(cluster.bootstrap) as client:
        read = sorted(client.read(["copy"]), key=lambda record: record.timestamp_ms)
    copied = [
        ProducerRecord("original", r.value, r.key, r.partition, r.timestamp_ms, r.headers)
        for r in read
    ]
    assert copied == records
    since = run("consume", "copy", "--from", "@1700000000001", "--exit", "-F", "%o %T,")
    assert sorted(since.split(",")) == ["", "0 1700000000001", "1 1700000000002"]
    until = run("consume", "copy", "--to", "@1700000000002", "-F", "%p,", "--filter-header", "n")
    assert until == "0,"
    file.write_text('{"value": "a"}\n{"value": ')
    assert "not a JSON record" in run(
        "produce", "copy", str(file), "--json-records", "--transaction", status=2
    )
    assert run("consume", "copy", "--exit", "--read-committed", "-F", "%S,").count(",") == 3


def test_tail_follows_topics_side_by_side_and_those_that_come_later(
    cluster: Cluster, tmp_path: Path
) -> None:
    with connect(cluster.bootstrap) as client:
        for topic in ("tailed-a", "tailed-b"):
            client.create_topic(topic, partitions=1, replication_factor=3)
            write(client, topic, b"old", b"first")
        output = tmp_path / "lines"
        with output.open("wb") as lines:
            tail = subprocess.Popen(
                [
                    *(sys.executable, "-m", "barnabas", "tail", "--include", "tailed-.*"),
                    *("--last", "1", "--max-records", "4", "--bootstrap", cluster.bootstrap),
                ],
                stdout=lines,
            )
        wait_until(lambda: output.read_bytes().count(b"\n") == 2, "the last record of each topic")
        client.create_topic("tailed-c", partitions=1, replication_factor=3)
        write(client, "tailed-c", b"early", b"late")
        assert tail.wait(30) == 0
    shown = output.read_text().splitlines()
    assert sorted(shown[:2]) == ["tailed-a[0]@1  first", "tailed-b[0]@1  first"]
    assert shown[2:] == ["tailed-c[0]@0  early", "tailed-c[0]@1  late"]


def write(client: Connected, topic: str, *values: bytes) -> None:
    with client.producer() as producer:
        for value in values:
            producer.send(ProducerRecord(topic, value, partition=0))
