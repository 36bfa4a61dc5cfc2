"""What is written into a cluster before another system takes it over, and what that has to serve again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import admin

from barnabas.host.client import connect
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse
from bench.wire import ask, leaders
from tests.trio import System, Trio

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.index.interval.bytes": "512",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}
PLAIN, PACKED, KEPT, ONCE = "plain", "packed", "kept", "once"
TOPICS = {
    PLAIN: (3, {"segment.bytes": "1048576"}),
    PACKED: (2, {}),
    KEPT: (
        1,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0",
        },
    ),
    ONCE: (1, {}),
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP = "readers"
KEYS = 50


@dataclass
class Served:
    """What clients of a cluster see."""

    batches: dict[TopicPartition, bytes] = field(default_factory=dict)
    """Every batch, byte for byte; of the compacted topic only what `latest` has."""
    latest: dict[bytes | None, tuple[int, bytes | None]] = field(default_factory=dict)
    """By key: offset and value of the newest record of the compacted topic."""
    epochs: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    """(leader epoch, end offset), as OffsetForLeaderEpoch answers for every epoch that left records."""
    stable: dict[TopicPartition, int] = field(default_factory=dict)
    """Last stable offsets."""
    committed: dict[TopicPartition, tuple[int, int, str]] = field(default_factory=dict)


def partitions() -> list[TopicPartition]:
    return [TopicPartition(t, p) for t, (count, _) in TOPICS.items() for p in range(count)]


# -- writing -----------------------------------------------------------------------------------------


def create_topics(trio: Trio) -> None:
    client = admin.AdminClient({"bootstrap.servers": trio.bootstrap, "log_level": 0})
    topics = [
        admin.NewTopic(name, count, 3, config={**configs, "min.insync.replicas": "2"})
        for name, (count, configs) in TOPICS.items()
    ]
    for done in client.create_topics(topics).values():
        done.result(30)


def produce(trio: Trio, topic: str, count: int, size: int, **settings: Any) -> None:
    """`count` records by turns over the partitions, all acknowledged."""
    failed: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": trio.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
            **settings,
        }
    )
    for at in range(count):
        producer.produce(
            topic,
            b"%d of %d " % (at, count) + b"v" * size,
            b"k%d" % (at % KEYS),
            partition=at % TOPICS[topic][0],
            headers=[("at", b"%d" % at)],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0 and not failed, failed[:3]


def write_all(trio: Trio) -> None:
    produce(trio, PLAIN, 3000, 1000)
    for codec in CODECS:
        produce(trio, PACKED, 200, 500, **{"compression.type": codec})
    produce(trio, KEPT, 4000, 1000)


def write_with_leader_changes(trio: Trio, system: System) -> None:
    """Everything, with leaders killed between: leader epochs above 0, and a commit before and after."""
    create_topics(trio)
    write_all(trio)
    commit(trio, 2000)
    for topic in (PLAIN, KEPT):
        victim = kill_leader(trio, topic)
        write_all(trio)
        trio.start(victim, system)
        trio.wait_for_isr(TOPICS)
    commit(trio, 3000)


def kill_leader(trio: Trio, topic: str) -> int:
    """Of partition 0; returns the broker that died once another one leads."""
    victim = leaders(trio.bootstrap, topic)[0][0]
    trio.kill(victim)
    server = next(str(n.client_endpoint) for i, n in trio.nodes.items() if i != victim)
    trio.wait_for(lambda: leaders(server, topic)[0][0] != victim, "a new leader")
    return victim


def write_transactions(trio: Trio) -> None:
    """Committed and aborted ones, in several batches and partitions."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": trio.bootstrap, "transactional.id": "mover", "log_level": 0}
    )
    producer.init_transactions(60)
    for round_ in range(6):
        producer.begin_transaction()
        for at in range(30):
            producer.produce(PLAIN, b"transaction %d %d" % (round_, at), partition=at % 3)
            if at % 10 == 9:
                producer.flush(30)
        if round_ % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def commit(trio: Trio, count: int) -> None:
    """The group reads `count` records and commits them with a note."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": trio.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([PLAIN, PACKED])
    read, deadline = 0, time.monotonic() + 60
    while read < count:
        read += len([m for m in consumer.consume(200, 1.0) if m.error() is None])
        assert time.monotonic() < deadline, f"{read} of {count}"
    positions = [
        confluent_kafka.TopicPartition(p.topic, p.partition, p.offset, f"after {count}")
        for p in consumer.position(consumer.assignment())
        if p.offset >= 0
    ]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()


def wait_until_compacted(trio: Trio) -> None:
    """Every node has cleaned the compacted topic up to its active segment."""

    def done() -> bool:
        for node_id in trio.nodes:
            data = trio.data(node_id)
            bases = [int(path.stem) for path in (data / f"{KEPT}-0").glob("*.log")]
            cleaned = _cleaned(data / "cleaner-offset-checkpoint")
            if cleaned < max(bases):
                return False
        return True

    trio.wait_for(done, "compaction")


def _cleaned(path: Path) -> int:
    if not path.exists():
        return -1
    rows = [line.split() for line in path.read_text().splitlines()[2:]]
    return max((int(row[2]) for row in rows if row[0] == KEPT), default=-1)


# -- what is served ----------------------------------------------------------------------------------


def served(trio: Trio) -> Served:
    found = Served()
    with connect(trio.bootstrap) as client:
        ends = {at: told.offset for at, told in client.offsets(partitions()).items()}
        for at, end in ends.items():
            data, offset = b"", client.offsets([at], -2)[at].offset
            written: set[int] = set()
            while offset < end:
                run = client.fetch({at: offset}, partition_max_bytes=300_000)[at]
                if run.error is None:
                    data += bytes(run.data)
                    written |= {batch.header.leader_epoch for batch in iterate(run.data)}
                    offset, found.stable[at] = run.next_offset, run.last_stable_offset
            found.epochs[at] = epochs_of(trio, at, sorted(written))
            if at.topic != KEPT:
                found.batches[at] = data
        for record in client.read([KEPT]):
            found.latest[record.key] = (record.offset, record.value)
        for at, told in client.committed(GROUP).items():
            found.committed[at] = (told.offset, told.leader_epoch, told.metadata)
    return found


def epochs_of(trio: Trio, at: TopicPartition, epochs: Sequence[int]) -> list[tuple[int, int]]:
    """As its leader answers for each of these leader epochs."""
    told, brokers = leaders(trio.bootstrap, at.topic)
    host, port = brokers[told[at.partition]]
    answers: list[tuple[int, int]] = []
    for epoch in epochs:
        row = OffsetForLeaderPartition(partition=at.partition, leader_epoch=epoch)
        topic = OffsetForLeaderTopic(topic=at.topic, partitions=[row])
        request = OffsetForLeaderEpochRequest(topics=[topic])
        answer = ask(f"{host}:{port}", request, 4, OffsetForLeaderEpochResponse)
        found = answer.topics[0].partitions[0]
        assert found.error_code == ErrorCode.NONE, found.error_code
        answers.append((found.leader_epoch, found.end_offset))
    return answers


def epochs_on_disk(trio: Trio, node_id: int, at: TopicPartition) -> set[tuple[int, int]]:
    """(leader epoch, start offset) in the checkpoint file of one replica."""
    file = trio.data(node_id) / f"{at.topic}-{at.partition}/leader-epoch-checkpoint"
    rows = [line.split() for line in file.read_text().splitlines()[2:]]
    return {(int(epoch), int(start)) for epoch, start in rows}


# -- the idempotent producer -------------------------------------------------------------------------


class Idempotent:
    """A producer that can send its last batches again to the present leader."""

    def __init__(self, trio: Trio) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answers: list[InitProducerIdResponse] = []

        def answered() -> bool:
            answers.append(ask(trio.bootstrap, request, 4, InitProducerIdResponse))
            return answers[-1].error_code == 0

        trio.wait_for(answered, "a producer id")
        self.producer_id, self.epoch = answers[-1].producer_id, answers[-1].producer_epoch
        self.offsets: list[int] = []
        self._now_ms = int(time.time() * 1000)

    def send(self, trio: Trio, sequence: int) -> PartitionProduceResponse:
        """Batch number `sequence` of two records."""
        records = build_batch(
            [(b"once", b"%d" % sequence)] * 2,
            timestamp_ms=self._now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=2 * sequence,
        )
        data = PartitionProduceData(index=0, records=memoryview(records))
        topic = TopicProduceData(name=ONCE, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        told, brokers = leaders(trio.bootstrap, ONCE)
        host, port = brokers[told[0]]
        answer = ask(f"{host}:{port}", request, 9, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    def send_next(self, trio: Trio) -> None:
        answer = self.send(trio, len(self.offsets))
        assert answer.error_code == 0, answer.error_code
        assert answer.base_offset not in self.offsets
        self.offsets.append(answer.base_offset)

    def check_remembered(self, trio: Trio) -> None:
        """The last batch said again is answered with the offset that it has; a gap is refused; the next
        one is appended."""
        again = self.send(trio, len(self.offsets) - 1)
        said = (again.error_code, again.base_offset)
        assert said == (0, self.offsets[-1]), (said, self.offsets)
        gap = self.send(trio, len(self.offsets) + 3)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, gap.error_code
        self.send_next(trio)
