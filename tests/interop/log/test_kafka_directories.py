"""One directory, two owners in turn: Apache Kafka writes, we read and append, Apache Kafka serves it all.

Clean and after a crash: Apache Kafka opens what our log leaves without a recovery error, and serves the same
records at the same offsets.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.client.offsets import LATEST, list_offsets
from barnabas.client.transaction_admin import abort_transaction, describe_producers, find_hanging
from barnabas.host.client import connect
from barnabas.host.disk import HostDisk
from barnabas.log import checkpoints
from barnabas.log.config import LogConfig
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import AppendOrigin, PartitionLog
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch, end_transaction_marker
from barnabas.record.decode import records_of
from barnabas.types import TopicPartition
from tests.peers import CLASS_PATH

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
LOG4J = """rootLogger.level=info
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%p %c %m%n
"""
Found = list[tuple[int, bytes | None, bytes | None]]

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
]


class Kafka:
    """One node of Apache Kafka with its directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"
        broker, controller = FreePorts().take(2)
        self.bootstrap = f"127.0.0.1:{broker}"
        self.properties = root / "server.properties"
        self.log4j = root / "log4j2.properties"
        self.log4j.write_text(LOG4J)
        self.properties.write_text(
            f"process.roles=broker,controller\nnode.id=1\nlog.dirs={self.data}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\noffsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
            "group.initial.rebalance.delay.ms=0\n"
        )
        self.java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self.properties))

    def command(self, *arguments: str) -> list[str]:
        return [
            "java", "-Xmx400m", f"-Dlog4j2.configurationFile={self.log4j}", "-cp", CLASS_PATH,
            *arguments,
        ]  # fmt: skip

    def java(self, *arguments: str) -> None:
        subprocess.run(self.command(*arguments), check=True, capture_output=True, timeout=60)

    @contextmanager
    def running(self) -> Iterator[Path]:
        """The node, until it has stopped in order; gives its log file."""
        output = self.root / f"kafka-{time.monotonic_ns()}.log"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                self.command("kafka.Kafka", str(self.properties)),
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        try:
            yield output
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(10)


def write_with_kafka(kafka: Kafka) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topic = NewTopic("t", 1, 1, config={"segment.bytes": "1048576", "index.interval.bytes": "500"})
    admin.create_topics([topic])["t"].result(30)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for at in range(400):
            producer.produce("t", f"{codec} {at} ".encode() + b"x" * 1000, b"k%d" % at, partition=0)
        assert producer.flush(30) == 0
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "x"})
    producer.init_transactions(30)
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce("t", b"transactional", b"c" if commit else b"a", partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def read_with_kafka(kafka: Kafka, count: int) -> Found:
    """Committed records, as a client of Apache Kafka gets them."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "g",
            "isolation.level": "read_committed",
            "check.crcs": True,
        }
    )
    consumer.assign([Place("t", 0, 0)])
    found, deadline = Found(), time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 1.0):
            assert message.error() is None
            found.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def open_here(kafka: Kafka, *, clean: bool = True) -> PartitionLog:
    disk = HostDisk()
    points = checkpoints.read_offsets(disk, f"{kafka.data}/{checkpoints.RECOVERY_POINT}")
    partition = TopicPartition("t", 0)
    opened = open_log(
        FileCache(disk),
        f"{kafka.data}/t-0",
        partition,
        LogConfig(segment_bytes=1 << 20, index_interval_bytes=500),
        LogCheckpoints(clean=clean, recovery_point=points.get(partition, 0)),
    )
    assert not opened.fault
    return opened.log


def read_here(log: PartitionLog) -> Found:
    """Committed records."""
    found, offset = Found(), log.log_start_offset
    aborted = sorted(log.read_transactions(0, log.log_end_offset), key=lambda each: each[1])
    void: set[int] = set()
    while offset < log.log_end_offset:
        run = log.read(offset, 100_000)
        assert run is not None
        for batch in iterate(run.records, crc=True):
            header = batch.header
            offset = header.next_offset
            while aborted and aborted[0][1] <= header.last_offset:
                void.add(aborted.pop(0)[0])
            if header.is_control:
                void.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in void):
                found += [(r.offset, r.key, r.value) for r in records_of(batch)]
    return found


def append_here(log: PartitionLog, count: int) -> None:
    now = int(time.time() * 1000)
    for at in range(count):
        batch = build_batch(
            [(b"ours", b"%d " % at + b"y" * 2000)] * 3, timestamp_ms=now, codec=at % 5
        )
        log.append_as_leader(batch, leader_epoch=max(log.last_epoch, 0), wall_ms=now)


def check_no_complaint(output: Path) -> None:
    lines = output.read_text(errors="replace").splitlines()
    bad = [line for line in lines if line.startswith(("ERROR", "FATAL")) or "Corrupt" in line]
    assert not bad, bad[:5]


def test_a_directory_goes_from_kafka_to_us_and_back(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    with kafka.running():
        write_with_kafka(kafka)
        theirs = read_with_kafka(kafka, 2001)
    assert len(theirs) == 2001
    assert read_here(open_here(kafka, clean=False)) == theirs, "recovered from the first byte"
    log = open_here(kafka)
    assert read_here(log) == theirs
    assert len(log.producers.entries) >= 5 and not log.producers.open_transactions
    append_here(log, 700)
    log.close()
    both = read_here(open_here(kafka))
    points = {TopicPartition("t", 0): log.log_end_offset}
    for name in (checkpoints.RECOVERY_POINT, checkpoints.HIGH_WATERMARK):
        path = f"{kafka.data}/{name}"
        known = checkpoints.read_offsets(HostDisk(), path)
        checkpoints.write_offsets(HostDisk(), path, {**known, **points})
    with kafka.running() as output:
        assert read_with_kafka(kafka, len(both)) == both
    check_no_complaint(output)
    # And as after a crash: it has to recover what our log wrote.
    log = open_here(kafka)
    append_here(log, 200)
    log.close(clean=False)
    (kafka.data / ".kafka_cleanshutdown").unlink()
    with kafka.running() as output:
        recovered = read_with_kafka(kafka, len(both) + 600)
    check_no_complaint(output)
    assert recovered[: len(both)] == both and len(recovered) == len(both) + 600


def test_open_transactions_go_from_kafka_to_us_and_back(tmp_path: Path) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    kafka, tp = Kafka(tmp_path), TopicPartition("t", 0)
    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "x"}
    with kafka.running():
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        producer = Producer({**settings, "transaction.timeout.ms": 900_000})
        producer.init_transactions(30)
        for commit in (True, False):
            producer.begin_transaction()
            producer.produce("t", b"committed" if commit else b"open", partition=0)
            producer.flush(30)
            if commit:
                producer.commit_transaction(30)
    log = open_here(kafka)
    [(theirs, first)] = log.producers.open_transactions.items()
    log.move_high_watermark(log.log_end_offset)
    assert (first, log.last_stable_offset) == (2, 2)
    write_transactions_here(log)
    assert log.producers.open_transactions == {theirs: 2, 5001: 5}
    log.close()
    set_checkpoints(kafka, log.log_end_offset)
    with kafka.running() as output:
        wait_for_stable(kafka, 2)
        Producer(settings).init_transactions(30)  # ends what its predecessor left open
        wait_for_stable(kafka, 5)
        abort_by_our_client(kafka, tp, 5)
        wait_for_stable(kafka, 8)
        assert read_with_kafka(kafka, 1) == [(0, None, b"committed")]
    check_no_complaint(output)
    log = open_here(kafka)
    assert not log.producers.open_transactions
    aborted = sorted(log.read_transactions(0, log.log_end_offset), key=lambda each: each[1])
    assert aborted == [(theirs, 2), (5000, 3), (5001, 5)]
    log.close()


def write_transactions_here(log: PartitionLog) -> None:
    """One that is aborted (offsets 3 and 4) and one that stays open (5)."""
    now = int(time.time() * 1000)
    epoch = max(log.last_epoch, 0)
    for producer in (5000, 5001):
        batch = build_batch(
            [(None, b"ours")],
            timestamp_ms=now,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        log.append_as_leader(batch, leader_epoch=epoch, wall_ms=now)
        if producer == 5000:
            marker = end_transaction_marker(
                commit=False,
                timestamp_ms=now,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
            )
            log.append_as_leader(
                marker, leader_epoch=epoch, wall_ms=now, origin=AppendOrigin.COORDINATOR
            )


def set_checkpoints(kafka: Kafka, end: int) -> None:
    for name in (checkpoints.RECOVERY_POINT, checkpoints.HIGH_WATERMARK):
        path = f"{kafka.data}/{name}"
        known = checkpoints.read_offsets(HostDisk(), path)
        checkpoints.write_offsets(HostDisk(), path, {**known, TopicPartition("t", 0): end})


def wait_for_stable(kafka: Kafka, offset: int) -> None:
    """Until readers of committed records may read up to `offset`."""
    tp, found = TopicPartition("t", 0), -1
    deadline = time.monotonic() + 60
    connected = connect(kafka.bootstrap)
    while found != offset:
        assert time.monotonic() < deadline, f"the last stable offset is {found}, not {offset}"
        asked = list_offsets(connected.client, {tp: LATEST}, read_committed=True)
        found = connected.call(asked)[tp].offset
        time.sleep(0.1)
    connected.close()


def abort_by_our_client(kafka: Kafka, tp: TopicPartition, start: int) -> None:
    connected = connect(kafka.bootstrap)
    [producer] = [
        producer
        for producer in connected.call(describe_producers(connected.client, [tp]))[tp]
        if producer.transaction_start == start
    ]
    [found] = connected.call(
        find_hanging(connected.client, [tp], silent_ms_min=-1, wall_ms=int(time.time() * 1000))
    )
    assert found.producer == producer
    connected.call(abort_transaction(connected.client, tp, producer))
    connected.close()
