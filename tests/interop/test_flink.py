"""Apache Flink's Kafka sink, exactly once, against our nodes: killed, and continued from a checkpoint."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.consumers.fetch_requests import FetchSettings
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.testing.cluster import Cluster
from tests.interop.java_programs import FLINK_OPTIONS, Program
from tests.peers import CLASS_PATH_FLINK

pytestmark = [pytest.mark.peers("flink"), pytest.mark.java, pytest.mark.slow, pytest.mark.process]
COUNT = 400


@pytest.fixture(scope="module")
def connected() -> Iterator[Connected]:
    with Cluster(nodes=3) as cluster:
        connected = connect(cluster.bootstrap)
        yield connected
        connected.close()


@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_flink_s_sink_writes_each_record_once_through_its_own_death(
    connected: Connected, naming: str, tmp_path: Path
) -> None:
    source, target = f"from-{naming}", f"to-{naming}"
    for topic in (source, target):
        connected.create_topic(topic, 3, 3, {"min.insync.replicas": "2"})
    arguments = (_bootstrap(connected), source, target, f"flink-{naming}", naming, str(tmp_path))
    with connected.producer() as producer:
        first = _start(*arguments, log=tmp_path / "first.log")
        try:
            first.wait_for_lines("started")
            # A record at a time: a checkpoint, and so a transaction, holds a part of them.
            deadline, number = time.monotonic() + 120, 0
            while len(_committed(connected, target)) < COUNT // 4:
                assert time.monotonic() < deadline, first.log.read_text()[-3_000:]
                for _ in range(10):
                    producer.send(_record(source, number))
                    number += 1
                producer.flush()
        finally:
            first.kill()
        total = number + COUNT
        for each in range(number, total):
            producer.send(_record(source, each))
    second = _start(*arguments, str(_newest(tmp_path)), log=tmp_path / "second.log")
    try:
        deadline = time.monotonic() + 120
        while len(found := _committed(connected, target)) < total:
            assert time.monotonic() < deadline, second.log.read_text()[-3_000:]
            time.sleep(0.2)
    finally:
        second.kill()
    assert Counter(found) == Counter(b"%d" % each for each in range(total))


def _start(*arguments: str, log: Path) -> Program:
    return Program(
        "FlinkCopy", *arguments, log=log, class_path=CLASS_PATH_FLINK, options=FLINK_OPTIONS
    )


def _bootstrap(connected: Connected) -> str:
    return ",".join(f"{at.host}:{at.port}" for at in connected.client.cluster.brokers.values())


def _record(topic: str, number: int) -> ProducerRecord:
    return ProducerRecord(topic, b"%d" % number, partition=number % 3)


def _newest(directory: Path) -> Path:
    """The last checkpoint that is complete."""
    found = directory.glob("*/chk-*/_metadata")
    return max(found, key=lambda path: int(path.parent.name.removeprefix("chk-"))).parent


def _committed(connected: Connected, topic: str) -> list[bytes]:
    """The committed records up to the first open transaction of each partition."""
    partitions = connected.partitions_of([topic])
    settings = ConsumerSettings(
        auto_offset_reset="earliest", fetch=FetchSettings(read_committed=True)
    )
    consumer = connected.consumer(settings=settings)
    consumer.inner.assign(dict.fromkeys(partitions, EARLIEST))
    latest = dict.fromkeys(partitions, LATEST)
    stable = connected.call(list_offsets(connected.client, latest, read_committed=True))
    deadline, found = time.monotonic() + 60, list[bytes]()
    while any((consumer.inner.position(tp) or 0) < stable[tp].offset for tp in partitions):
        assert time.monotonic() < deadline, "committed records cannot be read"
        found += [bytes(record.value or b"") for record in consumer.poll(200)]
    consumer.close()
    return found
