"""Read, process, write exactly once: what is fed, who is killed, and what has to come out.

An application of one client reads `source`, writes each record to the same partition of `target` and commits
what it read in the same transaction; some transactions it aborts. Meanwhile a partition's leader, the
coordinator of transactions, the group's coordinator and the active controller are killed -9 in turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Protocol

from barnabas.client.client import GROUP, TRANSACTION
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from tests.clients.checks import fresh, wait_for

PARTITIONS = 3
PATIENCE_S = 90.0
ABORTED_SHARE = 0.2


class Names:
    """Fresh ones for one application."""

    def __init__(self, prefix: str) -> None:
        self.source, self.target = fresh(f"{prefix}-source"), fresh(f"{prefix}-target")
        self.group, self.transactional_id = fresh(f"{prefix}-group"), fresh(f"{prefix}-app")


class Application(Protocol):
    """One client's loop."""

    def step(self, abort: bool) -> None:
        """Read some records; write them, and commit or abort. After an error it begins from what is
        committed."""

    def close(self) -> None: ...


class Feed:
    """Writes numbers to `source` until `stop`; knows what each partition has to hold."""

    def __init__(self, cluster: Cluster, names: Names) -> None:
        self.sent: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self._topic = names.source
        self._connected = connect(cluster.bootstrap)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        producer = self._connected.producer()
        while not self._stopping.is_set():
            for partition in range(PARTITIONS):
                value = b"%d" % self.sent[partition]
                producer.send(ProducerRecord(self._topic, value, partition=partition))
                self.sent[partition] += 1
            producer.flush()
            self._stopping.wait(0.02)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self._connected.close()


class Killer:
    """Kills one role after the other, each after something more was committed, and restarts it."""

    ROLES = ("leader", "transactions", "controller", "group")

    def __init__(self, cluster: Cluster, names: Names) -> None:
        self.failure: BaseException | None = None
        self.killed: list[str] = []
        self._cluster = cluster
        self._names = names
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._asking() as connected:
                for role in self.ROLES:
                    self._wait_for_progress(connected)
                    node = self._who_is(connected, role)
                    self._cluster.kill(node)
                    self.killed.append(role)
                    try:
                        self._wait_for_progress(connected)
                    finally:
                        self._cluster.restart(node)
                    self._wait_until_in_sync(connected)
        except BaseException as failure:
            self.failure = failure
            raise

    @contextmanager
    def _asking(self) -> Iterator[Connected]:
        connected = connect(self._cluster.bootstrap)
        try:
            yield connected
        finally:
            connected.close()

    def _end(self, connected: Connected) -> int:
        tps = [TopicPartition(self._names.target, index) for index in range(PARTITIONS)]
        return sum(found.offset for found in connected.offsets(tps).values())

    def _wait_for_progress(self, connected: Connected) -> None:
        before = self._end(connected)
        wait_for(lambda: self._end(connected) > before + 60, f"progress {self.killed}", PATIENCE_S)

    def _who_is(self, connected: Connected, role: str) -> int:
        client = connected.client
        if role == "controller":
            return connected.call(connected.admin.describe_quorum()).leader_id
        if role == "leader":
            view = connected.topic(self._names.target)
            return view.partitions[0].leader
        kind = TRANSACTION if role == "transactions" else GROUP
        key = self._names.transactional_id if kind == TRANSACTION else self._names.group
        connected.call(client.coordinator(kind, key))
        node = client.coordinator_node(key, kind)
        assert node is not None
        return node

    def _wait_until_in_sync(self, connected: Connected) -> None:
        def whole() -> bool:
            return all(
                len(view.isr) == len(view.replicas)
                for topic in connected.topics()
                for view in topic.partitions.values()
            )

        wait_for(whole, "all replicas to be in sync", PATIENCE_S)


def create_topics(cluster: Cluster, names: Names) -> None:
    connected = connect(cluster.bootstrap)
    for topic in (names.source, names.target):
        connected.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
    connected.close()


def run_through_deaths(cluster: Cluster, names: Names, application: Application) -> dict[int, int]:
    """Step until all roles died once and everything fed is committed. How many records each partition has to
    hold."""
    rng = Random(7)
    feed = Feed(cluster, names)
    try:
        killer = Killer(cluster, names)
        while not killer.is_done:
            application.step(rng.random() < ABORTED_SHARE)
        assert killer.failure is None, killer.failure
        assert killer.killed == list(Killer.ROLES)
    finally:
        feed.stop()
    connected = connect(cluster.bootstrap)
    deadline = time.monotonic() + PATIENCE_S
    while (behind := _behind(connected, names, feed.sent)) > 0:
        assert time.monotonic() < deadline, f"{behind} records are not processed"
        application.step(abort=False)
    connected.close()
    application.close()
    return feed.sent


def _behind(connected: Connected, names: Names, sent: dict[int, int]) -> int:
    committed = connected.committed(names.group)
    return sum(sent.values()) - sum(found.offset for found in committed.values())


def assert_each_once_in_order(sent: dict[int, int], read: Iterable[tuple[int, int, bytes]]) -> None:
    """`read` has (partition, offset, value) of committed records."""
    values: dict[int, list[int]] = {partition: [] for partition in sent}
    for partition, _, value in sorted(read):
        values[partition].append(int(value))
    for partition, count in sent.items():
        found = values[partition]
        assert found == list(range(count)), _first_difference(partition, found)


def _first_difference(partition: int, found: list[int]) -> str:
    at = next((i for i, value in enumerate(found) if value != i), len(found))
    return f"partition {partition} has {found[at : at + 5]} at its record {at}, {len(found)} in all"
