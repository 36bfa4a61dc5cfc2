"""A whole cluster of three nodes is killed in the middle of its work; the other system opens what is left.

Idempotent producers write, a group commits and a compacted topic is compacted while every node gets its
kill -9. The system that starts next recovers the logs without an error, serves every acknowledged record,
the leader epochs and the committed offsets, remembers the producer, and continues.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any, Self

import confluent_kafka
import pytest

from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import CommittedOffset, GroupIdentity
from barnabas.client.offsets import commit as commit_offsets
from barnabas.host.client import connect
from barnabas.record.batch import iterate
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError
from tests.interop.contents import (
    GROUP,
    KEPT,
    KEYS,
    ONCE,
    PACKED,
    PLAIN,
    SETTINGS,
    TOPICS,
    Idempotent,
    commit,
    epochs_of,
    partitions,
    produce,
    wait_until_compacted,
    write_with_leader_changes,
)
from tests.trio import System, Trio

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.peers("kafka"),
    pytest.mark.timeout(600),
]
INTERNAL = ["__consumer_offsets"]
HARMLESS = (
    r"kafka\.server\.ControllerApis |org\.apache\.kafka\.raft\.KafkaRaftClientDriver "
    r"|kafka\.server\.ReplicaManager .*Error processing append operation on partition \S+:once-"
)
"""Kafka logs as errors: requests that come before the election is over, a quorum whose nodes all stop at
once, and the wrong sequence number that `Idempotent` sends."""
COMPLAINTS = re.compile(rf"^(ERROR|FATAL) (?!{HARMLESS})|^\S+ error |^Traceback")
"""Recovering is what is wanted here: only errors count."""
OLD_CHECKPOINTS = {"log.flush.offset.checkpoint.interval.ms": "3600000"}
"""Recovery points are those of the start: everything is read, gaps of compaction among it."""
NO_MEMBER = GroupIdentity(GROUP)
Found = dict[int, tuple[bytes | None, bytes | None]]


class Writers:
    """Idempotent producers to every topic and a group that commits, until everybody is dead."""

    def __init__(self, trio: Trio) -> None:
        self._trio = trio
        self.acknowledged: dict[TopicPartition, Found] = defaultdict(dict)
        self.commits: dict[TopicPartition, list[int]] = defaultdict(list)
        """Acknowledged ones in their order; perhaps one more that was on its way."""
        self.attempted: dict[TopicPartition, int] = {}
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(PLAIN, "none", 900)),
            threading.Thread(target=self._produce, args=(PACKED, "lz4", 400)),
            threading.Thread(target=self._produce, args=(KEPT, "none", 900)),
            threading.Thread(target=self._commit),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    @property
    def are_under_way(self) -> bool:
        """A lot was acknowledged in every partition, and committed several times."""
        wanted = [at for at in partitions() if at.topic != ONCE]
        return all(len(self.acknowledged[at]) > 400 for at in wanted) and (
            min((len(rows) for rows in list(self.commits.values())), default=0) > 3
        )

    def _client(self, **settings: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self._trio.bootstrap, "log_level": 0, **settings}

    def _produce(self, topic: str, codec: str, size: int) -> None:
        producer = confluent_kafka.Producer(
            self._client(
                **{"enable.idempotence": True, "linger.ms": 2, "compression.type": codec},
            )
        )
        number = 0
        while not self._ended.wait(0.001):
            producer.produce(
                topic,
                b"under load %d " % number + b"w" * size,
                b"k%d" % (number % KEYS),
                partition=number % TOPICS[topic][0],
                on_delivery=self._on_delivery,
            )
            producer.poll(0)
            number += 1
        producer.purge()
        producer.flush(1)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            at = TopicPartition(message.topic(), message.partition())
            self.acknowledged[at][message.offset()] = (message.key(), message.value())

    def _commit(self) -> None:
        places = [at for at in partitions() if at.topic == PLAIN]
        offset = 0
        with connect(self._trio.bootstrap) as client:
            while not self._ended.is_set():
                offset += 1
                self.attempted = dict.fromkeys(places, offset)
                rows = {at: CommittedOffset(offset) for at in places}
                try:
                    client.call(commit_offsets(client.client, NO_MEMBER, rows, timeout_ms=5000))
                except (ChannelError, KafkaError):
                    break  # everybody is dead
                for at in places:
                    self.commits[at].append(offset)


def killed_under_load(trio: Trio, system: System) -> tuple[Writers, Idempotent]:
    """A cluster of its own life, and what it had promised when it died."""
    trio.format(system)
    try:
        for node_id in trio.nodes:
            trio.start(node_id, system)
        trio.wait_for_brokers()
        write_with_leader_changes(trio, system)
        producer = Idempotent(trio)
        for _ in range(7):
            producer.send_next(trio)
        trio.wait_for_isr([*TOPICS, *INTERNAL])
        wait_until_compacted(trio)
        with Writers(trio) as writers:
            trio.wait_for(lambda: writers.are_under_way, "a lot of acknowledged records")
            trio.kill_all()
    finally:
        trio.kill_all()
    assert not list(trio.directory.rglob(".kafka_cleanshutdown"))
    return writers, producer


def check_recovered(trio: Trio, system: System, writers: Writers, producer: Idempotent) -> None:
    """Everything that was promised is there, and the cluster continues; it ends in order."""
    with trio.running(system):
        trio.wait_for_isr([*TOPICS, *INTERNAL])
        assert not complaints(trio)
        epochs = {at: check_partition(trio, at, writers.acknowledged[at]) for at in partitions()}
        assert max(epochs.values()) > 1
        with connect(trio.bootstrap) as client:
            told = client.committed(GROUP)
        for at, offsets in writers.commits.items():
            assert told[at].offset in (offsets[-1], writers.attempted[at]), at
        producer.check_remembered(trio)
        produce(trio, PLAIN, 300, 100)
        commit(trio, 300)
        trio.wait_for_isr(TOPICS)
    assert not complaints(trio)


def check_partition(trio: Trio, at: TopicPartition, acknowledged: Found) -> int:
    """Every acknowledged record (of a compacted topic: or a newer one of its key) and the leader epochs of
    all that is there; how many epochs left records."""
    found, starts, end = Found(), dict[int, int](), 0
    with connect(trio.bootstrap) as client:
        for record in client.read([at.topic]):
            if record.partition == at.partition:
                found[record.offset] = (record.key, record.value)
        end = client.offsets([at])[at].offset
        offset = client.offsets([at], -2)[at].offset
        while offset < end:
            run = client.fetch({at: offset}, partition_max_bytes=300_000)[at]
            if run.error is None:
                for batch in iterate(run.data, crc=True):
                    starts.setdefault(batch.header.leader_epoch, batch.header.base_offset)
                offset = run.next_offset
    if at.topic == KEPT:
        newest = {key: offset for offset, (key, _) in sorted(found.items())}
        for offset, (key, value) in acknowledged.items():
            assert newest[key] > offset or found[offset] == (key, value), (at, offset)
        return len(starts)
    lost = {offset for offset, row in acknowledged.items() if found.get(offset) != row}
    assert not lost, (at, min(lost), len(lost), end)
    assert list(starts) == sorted(starts)
    ends = [*list(starts.values())[1:], end]
    assert epochs_of(trio, at, list(starts)) == list(zip(starts, ends, strict=True)), at
    return len(starts)


def complaints(trio: Trio) -> list[str]:
    lines = [line for node in trio.nodes for line in trio.output(node).splitlines()]
    return [line for line in lines if COMPLAINTS.search(line)]


def test_kafka_recovers_what_we_left_when_we_were_killed(tmp_path: Path) -> None:
    ours = Trio(tmp_path / "ours", SETTINGS)
    promised = killed_under_load(ours, "barnabas")
    check_recovered(ours.copy_to(tmp_path / "theirs"), "kafka", *promised)
    # And we do it ourselves, from the same files.
    check_recovered(ours.copy_to(tmp_path / "again"), "barnabas", *promised)


def test_we_recover_what_kafka_left_when_it_was_killed(tmp_path: Path) -> None:
    theirs = Trio(tmp_path / "theirs", {**SETTINGS, **OLD_CHECKPOINTS})
    promised = killed_under_load(theirs, "kafka")
    check_recovered(theirs.copy_to(tmp_path / "ours"), "barnabas", *promised)
