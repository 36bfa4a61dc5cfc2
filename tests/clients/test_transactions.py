"""Exactly-once loops of other people's clients, while one role after the other is killed -9."""

from __future__ import annotations

import asyncio
import queue
import threading
from contextlib import suppress
from typing import Any

import pytest

from barnabas.testing.cluster import Cluster
from tests.clients.loops import (
    PARTITIONS,
    Names,
    assert_each_once_in_order,
    create_topics,
    run_through_deaths,
)

pytestmark = [pytest.mark.process, pytest.mark.slow]
BATCH = 50
CALL_S = 3.0


class ConfluentApplication:
    """librdkafka."""

    def __init__(self, library: Any, servers: str, names: Names) -> None:
        self._library = library
        self._servers = servers
        self._names = names
        self._consumer = library.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": names.group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([names.source])
        self._producer = self._new_producer()

    def _new_producer(self) -> Any:
        producer = self._library.Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": self._names.transactional_id,
                "transaction.timeout.ms": 20_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(60)
        return producer

    def step(self, abort: bool) -> None:
        messages = [m for m in self._consumer.consume(BATCH, 0.5) if m.error() is None]
        if not messages:
            return
        try:
            self._producer.begin_transaction()
            for m in messages:
                self._producer.produce(self._names.target, m.value(), partition=m.partition())
            if abort:
                self._producer.flush(10)
                self._abort()
                return
            positions = self._consumer.position(self._consumer.assignment())
            metadata = self._consumer.consumer_group_metadata()
            self._retry(lambda: self._producer.send_offsets_to_transaction(positions, metadata, 30))
            self._retry(lambda: self._producer.commit_transaction(30))
        except self._library.KafkaException as error:
            if error.args[0].fatal():
                self._producer = self._new_producer()
                self._rewind()
            else:
                self._abort()

    def _retry(self, action: Any) -> None:
        for _ in range(10):
            try:
                action()
                return
            except self._library.KafkaException as error:
                if not error.args[0].retriable():
                    raise
        action()

    def _abort(self) -> None:
        try:
            self._retry(lambda: self._producer.abort_transaction(30))
        except self._library.KafkaException as error:
            assert error.args[0].fatal(), error
            self._producer = self._new_producer()
        self._rewind()

    def _rewind(self) -> None:
        for tp in self._retried(lambda: self._consumer.committed(self._consumer.assignment(), 20)):
            tp.offset = max(tp.offset, 0)
            with suppress(self._library.KafkaException):  # it was taken away meanwhile
                self._consumer.seek(tp)

    def _retried(self, action: Any) -> Any:
        found: list[Any] = []
        self._retry(lambda: found.append(action()))
        return found[0]

    def close(self) -> None:
        self._consumer.close()


def test_confluent_kafka_processes_each_record_once(cluster: Cluster) -> None:
    library = pytest.importorskip("confluent_kafka")
    names = Names("confluent")
    create_topics(cluster, names)
    application = ConfluentApplication(library, cluster.bootstrap, names)
    sent = run_through_deaths(cluster, names, application)
    reader = library.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": names.group + "-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    reader.assign([library.TopicPartition(names.target, p, 0) for p in range(PARTITIONS)])
    read: list[tuple[int, int, bytes]] = []
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = reader.poll(20)
        assert message is not None, "the reader is stuck"
        if message.error() is not None:
            ended.add(message.partition())
        else:
            read.append((message.partition(), message.offset(), message.value()))
    reader.close()
    assert_each_once_in_order(sent, read)


class KafkaPythonApplication:
    """kafka-python. It forgets an EndTxn whose coordinator dies while it connects to it, and waits for ever
    (``Sender._maybe_send_pending_request`` of 3.0): what takes too long is given up, as by a process that
    is replaced."""

    def __init__(self, library: Any, servers: str, names: Names) -> None:
        self._library = library
        self._servers = servers.split(",")
        self._names = names
        self._consumer = library.KafkaConsumer(
            names.source,
            bootstrap_servers=self._servers,
            group_id=names.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
        )
        self._producer = self._new_producer()

    def _new_producer(self) -> Any:
        producer = self._library.KafkaProducer(
            bootstrap_servers=self._servers,
            transactional_id=self._names.transactional_id,
            transaction_timeout_ms=20_000,
            max_block_ms=60_000,
        )
        producer.init_transactions()
        return producer

    def step(self, abort: bool) -> None:
        found = self._consumer.poll(timeout_ms=500, max_records=BATCH)
        if not found:
            return
        try:
            self._producer.begin_transaction()
            for tp, records in found.items():
                for record in records:
                    self._producer.send(self._names.target, record.value, partition=tp.partition)
            if abort:
                self._producer.flush(10)
                self._in_time(self._producer.abort_transaction)
                self._rewind()
                return
            offsets = {
                tp: self._library.structs.OffsetAndMetadata(records[-1].offset + 1, "", -1)
                for tp, records in found.items()
            }
            group, producer = self._consumer.group_metadata(), self._producer
            self._in_time(lambda: producer.send_offsets_to_transaction(offsets, group))
            self._in_time(producer.commit_transaction)
        except (self._library.errors.KafkaError, TimeoutError):
            # Whatever it was: a new producer ends what this one left open.
            producer = self._producer
            with suppress(self._library.errors.KafkaError, TimeoutError):
                self._in_time(lambda: producer.close(timeout=1))
            # Where its flush takes too long, `close` leaves the thread that sends: it tries without a pause,
            # and a new producer of the same process gets to nothing beside it.
            producer._sender.force_close()
            self._producer = self._new_producer()
            self._rewind()

    def _in_time(self, action: Any) -> None:
        ended: queue.Queue[Exception | None] = queue.Queue()

        def run() -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                ended.put(error)
            else:
                ended.put(None)

        threading.Thread(target=run, daemon=True).start()
        try:
            error = ended.get(timeout=CALL_S)
        except queue.Empty:
            raise TimeoutError from None
        if error is not None:
            raise error

    def _rewind(self) -> None:
        for tp in self._consumer.assignment():
            self._consumer.seek(tp, self._consumer.committed(tp) or 0)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


def test_kafka_python_processes_each_record_once(cluster: Cluster) -> None:
    library = pytest.importorskip("kafka")
    names = Names("kafka-python")
    create_topics(cluster, names)
    application = KafkaPythonApplication(library, cluster.bootstrap, names)
    sent = run_through_deaths(cluster, names, application)
    reader = library.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    partitions = [library.TopicPartition(names.target, p) for p in range(PARTITIONS)]
    reader.assign(partitions)
    reader.seek_to_beginning()
    ends = reader.end_offsets(partitions)
    read = []
    while any(reader.position(tp) < ends[tp] for tp in partitions):
        for records in reader.poll(timeout_ms=20_000).values():
            read += [(r.partition, r.offset, r.value) for r in records]
    reader.close()
    assert_each_once_in_order(sent, read)


class AiokafkaApplication:
    """aiokafka."""

    def __init__(self, library: Any, servers: str, names: Names) -> None:
        self._library = library
        self._servers = servers
        self._names = names
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        application = self

        class Rebalances(self._library.ConsumerRebalanceListener):  # type: ignore[misc,name-defined]
            async def on_partitions_revoked(self, revoked: Any) -> None: ...

            async def on_partitions_assigned(self, assigned: Any) -> None:
                application._is_assigned_again = True

        self._is_assigned_again = False
        self._consumer = self._library.AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            group_id=self._names.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
        )
        self._consumer.subscribe([self._names.source], listener=Rebalances())
        await self._consumer.start()
        await self._new_producer()

    async def _new_producer(self) -> None:
        self._producer = self._library.AIOKafkaProducer(
            bootstrap_servers=self._servers,
            transactional_id=self._names.transactional_id,
            transaction_timeout_ms=20_000,
        )
        await self._producer.start()

    def step(self, abort: bool) -> None:
        self._loop.run_until_complete(self._step(abort))

    async def _step(self, abort: bool) -> None:
        found = await self._consumer.getmany(timeout_ms=500, max_records=BATCH)
        if self._is_assigned_again:
            # The client took positions while a transaction that had others was being committed: it does not
            # ask for stable offsets (KIP-447).
            self._is_assigned_again = False
            await self._rewind()
            return
        if not found:
            return
        try:
            await self._producer.begin_transaction()
            for tp, records in found.items():
                for record in records:
                    await self._producer.send(
                        self._names.target, record.value, partition=tp.partition
                    )
            if abort:
                await self._producer.flush()
                await self._producer.abort_transaction()
                await self._rewind()
                return
            offsets = {tp: records[-1].offset + 1 for tp, records in found.items()}
            await self._producer.send_offsets_to_transaction(offsets, self._names.group)
            await asyncio.wait_for(self._producer.commit_transaction(), 30)
        except (self._library.errors.KafkaError, TimeoutError):
            # Whatever it was: a new producer ends what this one left open.
            with suppress(Exception):
                await asyncio.wait_for(self._producer.stop(), 2)
            await self._new_producer()
            await self._rewind()

    async def _rewind(self) -> None:
        for tp in self._consumer.assignment():
            self._consumer.seek(tp, await self._consumer.committed(tp) or 0)

    def close(self) -> None:
        self._loop.run_until_complete(self._producer.stop())
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


def test_aiokafka_processes_each_record_once(cluster: Cluster) -> None:
    library = pytest.importorskip("aiokafka")
    names = Names("aiokafka")
    create_topics(cluster, names)
    application = AiokafkaApplication(library, cluster.bootstrap, names)
    sent = run_through_deaths(cluster, names, application)
    assert_each_once_in_order(sent, asyncio.run(_read_all(library, cluster.bootstrap, names)))


async def _read_all(library: Any, servers: str, names: Names) -> list[tuple[int, int, bytes]]:
    reader = library.AIOKafkaConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await reader.start()
    partitions = [library.TopicPartition(names.target, p) for p in range(PARTITIONS)]
    reader.assign(partitions)
    ends = await reader.end_offsets(partitions)
    await reader.seek_to_beginning()
    read: list[tuple[int, int, bytes]] = []
    while True:
        behind = [tp for tp in partitions if await reader.position(tp) < ends[tp]]
        if not behind:
            break
        for records in (await reader.getmany(timeout_ms=1_000)).values():
            read += [(r.partition, r.offset, r.value) for r in records]
    await reader.stop()
    return read
