"""Apache Kafka's tool decodes what a node keeps of its own: offsets, metadata, snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from tests.interop.log.dump_tool import dump

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.process,
]


def test_kafka_decodes_offsets_and_metadata_of_a_node(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = {"offsets.topic.num.partitions": "1"}
    with Cluster(nodes=1, directory=tmp_path, settings=settings) as cluster:
        address = {"bootstrap.servers": cluster.bootstrap}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
        producer = Producer(address)
        for at in range(50):
            producer.produce("t", b"%d" % at, b"k", partition=at % 2)
        assert producer.flush(30) == 0
        consumer = Consumer({**address, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        count = 0
        while count < 50:
            count += len(consumer.consume(50, 10))
        consumer.commit(asynchronous=False)
        consumer.close()
    offsets = files(tmp_path, "__consumer_offsets-0/*.log")
    said = dump("--deep-iteration", "--offsets-decoder", "--files", ",".join(offsets))
    assert '"group":"g"' in said and '"topic":"t"' in said and '"offset":25' in said
    assert "isvalid: false" not in said
    metadata = files(tmp_path, "__cluster_metadata-0/*.log")
    said = dump("--cluster-metadata-decoder", "--files", ",".join(metadata))
    for kind in ("TOPIC_RECORD", "PARTITION_RECORD", "REGISTER_BROKER_RECORD", "LeaderChange"):
        assert kind in said, kind
    assert '"name":"t"' in said
    for path in files(tmp_path, "**/*.checkpoint"):
        said = dump("--cluster-metadata-decoder", "--skip-record-metadata", "--files", path)
        assert "FEATURE_LEVEL_RECORD" in said


def files(root: Path, pattern: str) -> list[str]:
    found = sorted(str(path) for path in root.rglob(pattern))
    assert found, pattern
    return found
