"""Nodes of a cluster of Apache Kafka are replaced by ours one by one, under a load, and ours by its own.

Every node votes and is a broker. It continues in the directory that the other system left: nothing that was
acknowledged by all replicas is lost or doubled, and no replica is copied again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.config.meta_properties import FILE_NAME, parse_meta_properties
from barnabas.host.client import connect
from barnabas.types import Uuid
from tests.interop.log.dump_tool import check_every_file, time_indexes_called_wrong
from tests.process import launch
from tests.process.migrating_machines import PARTITIONS, TOPIC, Load, check_read
from tests.trio import System, Trio

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.peers("kafka"),
    pytest.mark.timeout(600),
]
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
}
PLACE = TopicPartition(TOPIC, 0)
COMMITTED = 7


def directory_ids(trio: Trio) -> dict[int, Uuid]:
    """Of each node's log directory."""
    found = {}
    for node_id in trio.nodes:
        path = trio.data(node_id) / FILE_NAME
        found[node_id] = parse_meta_properties(path.read_text(), str(path)).directory_id
    return found


def first_files(trio: Trio) -> dict[str, int]:
    """The first file of each replica of the topic, with its number in the file system."""
    paths = trio.directory.glob(f"*/data/{TOPIC}-*/00000000000000000000.log")
    return {str(path.relative_to(trio.directory)): path.stat().st_ino for path in paths}


def replace(trio: Trio, node_id: int, system: System, load: Load) -> None:
    """`system` takes the node's directory over, and is in every ISR again."""
    trio.terminate(node_id)
    trio.start(node_id, system, stops_alone=True)
    trio.wait_for_isr([TOPIC, "__consumer_offsets"])
    load.wait_for_more()


@pytest.mark.parametrize("first", ["kafka", "barnabas"])
def test_each_node_is_replaced_and_comes_back_under_a_load(
    first: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "PATIENCE_S", 90.0)
    other: System = "barnabas" if first == "kafka" else "kafka"
    trio = Trio(tmp_path, SETTINGS)
    trio.format(first)
    try:
        for node_id in trio.nodes:
            trio.start(node_id, first, stops_alone=True)
        trio.wait_for_brokers()
        with connect(trio.bootstrap) as client:
            client.create_topic(TOPIC, PARTITIONS, 3)
        group = Consumer({**trio.client(), "group.id": "kept"})
        group.commit(offsets=[TopicPartition(TOPIC, 0, COMMITTED)], asynchronous=False)
        ids, files = directory_ids(trio), first_files(trio)
        with Load(trio) as load:
            for system in (other, first):
                for node_id in trio.nodes:
                    replace(trio, node_id, system, load)
        check_read(trio, load)
        assert not trio.complaints()
        assert group.committed([PLACE], timeout=60)[0].offset == COMMITTED
        group.close()
        assert directory_ids(trio) == ids
        assert len(files) == 3 * PARTITIONS and first_files(trio) == files
        trio.stop()
    finally:
        trio.kill_all()
    check_every_file(trio.directory, time_indexes_called_wrong(trio.directory))
