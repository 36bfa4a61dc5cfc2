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


def test_kafka_decodes_what_transactions_leave(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with Cluster(nodes=1, directory=tmp_path, settings=settings) as cluster:
        address = {"bootstrap.servers": cluster.bootstrap}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        consumer = Consumer({**address, "group.id": "g"})
        producer = Producer({**address, "transactional.id": "app"})
        producer.init_transactions(30)
        for outcome in ("commit", "abort", "open"):
            producer.begin_transaction()
            producer.produce("t", outcome.encode(), partition=0)
            producer.flush(30)
            at = [TopicPartition("t", 0, 7)]
            producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), 30)
            if outcome == "commit":
                producer.commit_transaction(30)
            elif outcome == "abort":
                producer.abort_transaction(30)
        consumer.close()
    said = dump("--deep-iteration", "--files", ",".join(files(tmp_path, "t-0/*.log")))
    assert "endTxnMarker: COMMIT" in said and "endTxnMarker: ABORT" in said
    assert said.count("isTransactional: true") >= 5
    said = dump("--deep-iteration", "--files", ",".join(files(tmp_path, "t-0/*.txnindex")))
    assert "firstOffset: 2 lastOffset: 3 lastStableOffset: 4" in said
    said = dump("--deep-iteration", "--files", files(tmp_path, "t-0/*.snapshot")[-1])
    assert "currentTxnFirstOffset: OptionalLong[4]" in said
    offsets = ",".join(files(tmp_path, "__consumer_offsets-0/*.log"))
    said = dump("--deep-iteration", "--offsets-decoder", "--files", offsets)
    assert '"offset":7' in said and "endTxnMarker: COMMIT" in said
    states = ",".join(files(tmp_path, "__transaction_state-0/*.log"))
    said = dump("--deep-iteration", "--transaction-log-decoder", "--files", states)
    assert '"transactionalId":"app"' in said and "isvalid: false" not in said


def files(root: Path, pattern: str) -> list[str]:
    found = sorted(str(path) for path in root.rglob(pattern))
    assert found, pattern
    return found
