"""kcat (Debian's, librdkafka) against a cluster of processes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.checks import CODECS, KillLeader, fresh, number, payload, wait_for

pytestmark = [
    pytest.mark.process,
    pytest.mark.peers("kcat"),
]


def kcat(cluster: Cluster, *arguments: str, stdin: bytes = b"", timeout: float = 60) -> bytes:
    done = subprocess.run(
        ["kcat", "-b", cluster.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def lines(start: int, stop: int) -> bytes:
    return b"".join(payload(index) + b"\n" for index in range(start, stop))


def values(output: bytes) -> list[int]:
    return [number(line) for line in output.splitlines()]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_are_read_back(cluster: Cluster, codec: str) -> None:
    topic = fresh("codec")  # created by writing: auto.create.topics.enable
    kcat(cluster, "-P", "-t", topic, "-z", codec, "-X", "acks=all", stdin=lines(0, 300))
    assert topic in kcat(cluster, "-L").decode()
    read = kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q")
    assert sorted(values(read)) == list(range(300))


def create(cluster: Cluster, topic: str, partitions: int) -> None:
    """With three replicas, which kcat cannot ask for."""
    command = [
        "topics",
        "create",
        topic,
        "--partitions",
        str(partitions),
        "--replication-factor",
        "3",
    ]
    subprocess.run(
        [sys.executable, "-m", "barnabas", *command, "--bootstrap", cluster.bootstrap], check=True
    )


class Member:
    """One kcat of a group; collects what it prints, and what it says of its assignment."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        self.process = subprocess.Popen(
            ["kcat", "-b", cluster.bootstrap, "-G", group, "-u",
             "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", topic],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.read: list[int] = []
        self.assigned = 0
        self._threads = [
            threading.Thread(target=self._collect_values, daemon=True),
            threading.Thread(target=self._collect_news, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _collect_values(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.read.append(number(line))

    def _collect_news(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if b"assigned:" in line:
                self.assigned = line.count(b"[")

    def stop(self) -> None:
        """SIGTERM: it commits what it printed and leaves the group."""
        self.process.terminate()
        assert self.process.wait(30) == 0
        for thread in self._threads:
            thread.join(10)


def test_a_group_of_two_rebalances_commits_and_resumes(cluster: Cluster) -> None:
    topic, group = fresh("group"), fresh("g")
    create(cluster, topic, partitions=4)
    for partition in range(4):
        numbers = lines(partition * 50, partition * 50 + 50)
        kcat(cluster, "-P", "-t", topic, "-p", str(partition), stdin=numbers)
    first = Member(cluster, group, topic)
    wait_for(lambda: len(first.read) == 200, "all records")
    second = Member(cluster, group, topic)
    wait_for(lambda: first.assigned == 2 and second.assigned == 2, "two partitions each")
    first.stop()
    second.stop()
    assert sorted(first.read) == list(range(200))
    kcat(cluster, "-P", "-t", topic, stdin=lines(200, 240))
    again = Member(cluster, group, topic)
    wait_for(lambda: len(again.read) >= 40, "the new records")
    again.stop()
    assert sorted(again.read) == list(range(200, 240))


def test_acknowledged_records_survive_the_death_of_a_leader(cluster: Cluster) -> None:
    topic = fresh("failover")
    create(cluster, topic, partitions=1)
    kcat(cluster, "-P", "-t", topic, "-p", "0", stdin=lines(0, 1))
    sent = 1
    producer = subprocess.Popen(
        ["kcat", "-b", cluster.bootstrap, "-P", "-t", topic, "-p", "0", "-X", "acks=all",
         "-X", "enable.idempotence=true"],
        stdin=subprocess.PIPE,
    )  # fmt: skip
    assert producer.stdin is not None
    with KillLeader(cluster, topic, lambda: sent > 1000):
        for index in range(1, 4000):
            producer.stdin.write(payload(index) + b"\n")
            if index % 20 == 0:
                producer.stdin.flush()
                time.sleep(0.002)  # a steady stream, so that the leader dies in its middle
            sent = index
        producer.stdin.close()
        assert producer.wait(90) == 0
    found: list[int] = []

    def whole() -> bool:
        found[:] = values(kcat(cluster, "-C", "-t", topic, "-p", "0", "-o", "0", "-e", "-q"))
        return len(found) >= 4000

    wait_for(whole, "all 4000 records")
    assert found == list(range(4000))
