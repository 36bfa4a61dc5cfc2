"""Our own client and commands against Apache Kafka: what they say is the protocol, not a dialect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.network.channels import ChannelError
from barnabas.client.producers.record_accumulator import ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.record.compression import Codec
from barnabas.wire.errors import ErrorCode, KafkaError
from bench.systems import Kafka

pytestmark = [
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
]
TRIES = 90


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three nodes of Apache Kafka that take writes."""
    kafka = Kafka(Path(tmp_path_factory.mktemp("kafka")))
    kafka.start()
    kafka.launch()
    try:
        with connect(kafka.bootstrap) as client:
            for _ in range(TRIES):
                try:
                    if len(client.describe_cluster().brokers) == 3:
                        break
                except (ChannelError, KafkaError):
                    pass
                client.run_for(1000)
            else:
                raise AssertionError("Apache Kafka did not start")
        yield kafka.bootstrap
    finally:
        kafka.stop()


def test_topics_records_groups_and_quorum(bootstrap: str) -> None:
    with connect(bootstrap) as client:
        client.create_topic("t", 3, 3, {"min.insync.replicas": "2"})
        with pytest.raises(KafkaError) as refused:
            client.create_topic("t", 3, 3)
        assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        for codec in Codec:
            with client.producer(ProducerSettings(codec=codec)) as producer:
                sent = [producer.send(ProducerRecord("t", b"%d" % i, b"k")) for i in range(500)]
            assert len({o.result().offset for o in sent}) == 500
        read = list(client.read(["t"]))
        assert [int(r.value or b"") for r in read] == list(range(500)) * len(Codec)
        settings = ConsumerSettings(auto_offset_reset="earliest")
        with client.consumer("g", settings) as consumer:
            consumer.inner.subscribe(["t"])
            got = 0
            while got < len(read):
                got += len(consumer.poll())
            consumer.commit()
        assert sum(at.offset for at in client.committed("g").values()) == len(read)
        # Where it committed is checked with the leaders before it reads on (KIP-320).
        assert {at.leader_epoch for at in client.committed("g").values() if at.offset} == {0}
        with client.producer() as producer:
            producer.send(ProducerRecord("t", b"later", b"k"))
        with client.consumer("g", settings) as consumer:
            consumer.inner.subscribe(["t"])
            later: list[bytes | None] = []
            while not later:
                later += [record.value for record in consumer.poll()]
            assert later == [b"later"]
        assert [g.group_id for g in client.call(client.admin.list_groups())] == ["g"]
        assert client.call(client.admin.describe_group("g")).state == "Empty"
        quorum = client.call(client.admin.describe_quorum())
        assert len(quorum.voters) == 3
        client.delete_topic("t")
        assert "t" not in {view.name for view in client.topics()}
