"""Bits flip in the files of a node that becomes leader: no client reads a wrong record or an error, and the
files are as the other replicas have them again."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest

from barnabas.client.admin import NewTopic
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.process.load import check_replicas_equal, wait_for_leader, wait_until_whole

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROTTEN, FIRST_LEADER, OTHER = 1, 2, 3
RECORDS = 600
VALUE = b"v" * 10_000


def files_of(cluster: Cluster, node_id: int) -> list[Path]:
    data = cluster.directory / "cluster" / f"node-{node_id}" / "data" / "t-0"
    return sorted(data.glob("*.log"))


def write(cluster: Cluster) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "batch.size": 50_000, "linger.ms": 1}
    )
    for number in range(RECORDS):
        producer.produce("t", b"%d " % number + VALUE, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def test_a_leader_whose_files_rotted_is_mended_while_it_is_read(tmp_path: Path) -> None:
    with Cluster(3, directory=tmp_path) as cluster:
        with connect(cluster.bootstrap) as client:
            topic = NewTopic(
                "t", -1, -1, {"segment.bytes": str(1 << 20)}, {0: [FIRST_LEADER, ROTTEN, OTHER]}
            )
            for outcome in client.call(client.admin.create_topics([topic])):
                outcome.check()
        write(cluster)
        wait_until_whole(cluster, "t")
        cluster.terminate(ROTTEN)
        cluster.wait_for(lambda: not cluster.is_alive(ROTTEN), "its end")
        rotten = files_of(cluster, ROTTEN)
        assert len(rotten) > 4
        flip(rotten[1], 300_000)  # in the records
        flip(rotten[2], 7)  # the base offset of a segment's first batch
        flip(rotten[3], rotten[3].stat().st_size // 2)
        cluster.restart(ROTTEN)
        wait_until_whole(cluster, "t")
        cluster.kill(FIRST_LEADER)
        assert wait_for_leader(cluster, "t", FIRST_LEADER) == ROTTEN
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "check.crcs": True,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        found: list[int] = []
        while len(found) < RECORDS:
            message = consumer.poll(30)
            assert message is not None and message.error() is None, message and message.error()
            found.append(int((message.value() or b"").split()[0]))
            assert message.offset() == len(found) - 1
        consumer.close()
        assert found == list(range(RECORDS))
        text = cluster.log_text(ROTTEN)
        assert text.count("log.corrupt_batch") == text.count("log.mended") == 3, text
        for path in rotten[1:4]:
            assert str(path) in text
        # No replica has left the ISR for it.
        cluster.restart(FIRST_LEADER)
        wait_until_whole(cluster, "t")
        check_replicas_equal(cluster, "t")
