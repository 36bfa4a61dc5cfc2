"""Producers, members and admin clients of confluent-kafka, kafka-python and aiokafka that stay connected.

Each is configured as its authors ship it, but for two things. One request of an admin client may take less
time. And librdkafka and kafka-python wait for up to 10 and 30 s before they try a broker again that they
could not reach: where two nodes die within some seconds, the first one leads again and is waited for. They
try again after `RECONNECT_MS_MAX`, where Java's clients wait a second.

An admin client that raises is asked again, as an application does: aiokafka's sends to a random broker of
those that it knows, dead or alive, and waits for a dead controller until its request times out.

Two faults of clients cannot be mended by a broker, and are the same with Apache Kafka. The process that uses
librdkafka's admin client for a group's offsets ends (``eonce->refcnt > 0``, up to 2.16 at least) when the
coordinator's connection ends under such a request: a consumer asks for them here. kafka-python's admin client
keeps a controller until an answer says NOT_CONTROLLER, and a coordinator for ever: it is made once more when
it fails.

And kafka-python (3.0) refreshes its metadata no more once a connection that it refreshes them by is reset, as
one is whose broker dies during a TLS handshake: the loop in its ``cluster.py`` ends by any error that is not
Kafka's own. A producer or member that this has happened to is made once more (`refreshes_metadata`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import kafka.errors

from tests.clients.access import Access
from tests.clients.checks import fresh
from tests.clients.connected import PARTITIONS, PATIENCE_S, Client, Member

R = TypeVar("R")
REQUEST_S = 2.0
AIOKAFKA_REQUEST_S = 0.5
RETRY_S = 0.05
RECONNECT_MS_MAX = 500
POLL_MS = 1000


def librdkafka(access: Access, **settings: object) -> dict[str, object]:
    """The configuration of one of its clients."""
    return {
        **access.librdkafka(),
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


def kafka_python(access: Access) -> dict[str, Any]:
    """The configuration of one of its clients."""
    return {**access.kafka_python(), "reconnect_backoff_max_ms": RECONNECT_MS_MAX}


def until_done(act: Callable[[], object]) -> None:
    """Ask again while it raises."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            act()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
        else:
            return


class ConfluentProducer:
    name = "confluent producer"

    def __init__(self, access: Access, topic: str) -> None:
        self._topic = topic
        self._client = confluent_kafka.Producer(librdkafka(access, acks="all"))

    def act(self, number: int) -> None:
        failures: list[object] = []

        def note(error: Any, message: Any) -> None:
            if error is not None:
                failures.append(error)

        for partition in range(PARTITIONS):
            self._client.produce(
                self._topic,
                b"%d" % number,
                self.name.encode(),
                partition=partition,
                on_delivery=note,
            )
        assert self._client.flush(PATIENCE_S) == 0
        assert not failures, failures

    def close(self) -> None:
        self._client.flush(1)


class ConfluentAdmin:
    """It creates topics only. While any of its connections is up, librdkafka looks for no other controller
    than the one it knows, against Apache Kafka too: connected to a group's coordinator as well it would wait
    for a dead controller for minutes (docs/divergence.md)."""

    name = "confluent admin"

    def __init__(self, access: Access) -> None:
        self._client = confluent_kafka.admin.AdminClient(librdkafka(access))

    def act(self, number: int) -> None:
        until_done(self._create)

    def _create(self) -> None:
        name = fresh("by-confluent")
        topic = confluent_kafka.admin.NewTopic(name, 1, 2)
        self._client.create_topics([topic], request_timeout=REQUEST_S)[name].result(PATIENCE_S)

    def close(self) -> None:
        """It ends with its last reference."""


class ConfluentOffsets:
    """A consumer that is no member: it asks the coordinator for the group's offsets, and nothing else."""

    name = "confluent offsets"

    def __init__(self, access: Access, topic: str, group: str) -> None:
        self._asked = [confluent_kafka.TopicPartition(topic, n) for n in range(PARTITIONS)]
        self._client = confluent_kafka.Consumer(librdkafka(access, group_id=group))

    def act(self, number: int) -> None:
        until_done(lambda: self._client.committed(self._asked, timeout=PATIENCE_S))

    def close(self) -> None:
        self._client.close()


class ConfluentMember(Member):
    def __init__(self, access: Access, topic: str, group: str) -> None:
        self._client = confluent_kafka.Consumer(
            librdkafka(
                access, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
            )
        )
        self._client.subscribe([topic])
        super().__init__("confluent member", self._read, self._write)

    def _read(self) -> list[tuple[int, int]]:
        messages = self._client.consume(100, timeout=0.02)
        return [(m.partition(), int(m.value())) for m in messages if m.error() is None]

    def _write(self) -> object:
        return self._client.commit(asynchronous=False)

    def close(self) -> None:
        super().close()
        self._client.close()


def refreshes_metadata(metadata: Any) -> bool:
    """Whether the loop of kafka-python's ``ClusterMetadata`` runs, or has not been needed yet."""
    loop = getattr(metadata, "_refresh_loop_future")  # noqa: B009
    return loop is None or not loop.is_done


class KafkaPythonProducer:
    name = "kafka-python producer"

    def __init__(self, access: Access, topic: str) -> None:
        self._topic = topic
        self._settings = kafka_python(access)
        self._client = kafka.KafkaProducer(**self._settings, acks="all")

    def act(self, number: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        futures = self._send(number)
        while futures:
            try:
                futures[0].get(REQUEST_S)
                del futures[0]
            except kafka.errors.KafkaTimeoutError:
                if time.monotonic() > deadline:
                    raise
                if not refreshes_metadata(self._client._metadata):
                    self._client.close(1)
                    self._client = kafka.KafkaProducer(**self._settings, acks="all")
                    futures = self._send(number)

    def _send(self, number: int) -> list[Any]:
        return [
            self._client.send(self._topic, b"%d" % number, self.name.encode(), partition=partition)
            for partition in range(PARTITIONS)
        ]

    def close(self) -> None:
        self._client.close(1)


class KafkaPythonAdmin:
    """Made once more when it fails: it would ask the same dead broker again."""

    name = "kafka-python admin"

    def __init__(self, access: Access, group: str) -> None:
        self._settings = kafka_python(access)
        self._group = group
        self._client = kafka.admin.KafkaAdminClient(**self._settings)

    def act(self, number: int) -> None:
        until_done(lambda: self._or_again(self._create))
        until_done(lambda: self._or_again(self._ask))

    def _or_again(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            self._client.close()
            self._client = kafka.admin.KafkaAdminClient(**self._settings)
            raise

    def _create(self) -> None:
        topic = kafka.admin.NewTopic(fresh("by-kafka-python"), 1, 2)
        self._client.create_topics([topic], timeout_ms=int(REQUEST_S * 1000))

    def _ask(self) -> None:
        self._client.list_group_offsets({self._group: None})

    def close(self) -> None:
        self._client.close()


class KafkaPythonMember(Member):
    """Its polls are long: the library forgets the assignment of a join that ends just when a poll's time is
    over, and the member then has no partitions for good (``join_group_async`` of 3.0)."""

    def __init__(self, access: Access, topic: str, group: str) -> None:
        settings = {
            **kafka_python(access),
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        self._make: Callable[[], Any] = lambda: kafka.KafkaConsumer(topic, **settings)
        self._client = self._make()
        super().__init__("kafka-python member", self._read, self._write)

    def _read(self) -> list[tuple[int, int]]:
        if not refreshes_metadata(self._client._cluster):
            self._client.close()
            self._client = self._make()
        found = self._client.poll(timeout_ms=POLL_MS)
        return [(r.partition, int(r.value)) for records in found.values() for r in records]

    def _write(self) -> object:
        return self._client.commit()

    def close(self) -> None:
        super().close()
        self._client.close()


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()


class AiokafkaProducer:
    name = "aiokafka producer"

    def __init__(self, loop: Loop, access: Access, topic: str) -> None:
        self._loop = loop
        self._topic = topic
        self._client = loop.run(self._start(access))

    async def _start(self, access: Access) -> Any:
        client = aiokafka.AIOKafkaProducer(**access.aiokafka(), acks="all")
        await client.start()
        return client

    def act(self, number: int) -> None:
        self._loop.run(self._act(number))

    async def _act(self, number: int) -> None:
        await asyncio.gather(
            *(
                self._client.send_and_wait(
                    self._topic, b"%d" % number, self.name.encode(), partition=partition
                )
                for partition in range(PARTITIONS)
            )
        )

    def close(self) -> None:
        self._loop.run(self._client.stop())


class AiokafkaAdmin:
    name = "aiokafka admin"

    def __init__(self, loop: Loop, access: Access, group: str) -> None:
        self._loop = loop
        self._group = group
        self._client = loop.run(self._start(access))

    async def _start(self, access: Access) -> Any:
        client = aiokafka.admin.AIOKafkaAdminClient(
            **access.aiokafka(), request_timeout_ms=int(AIOKAFKA_REQUEST_S * 1000)
        )
        await client.start()
        return client

    def act(self, number: int) -> None:
        until_done(lambda: self._loop.run(self._create()))
        until_done(lambda: self._loop.run(self._ask()))

    async def _create(self) -> None:
        topic = aiokafka.admin.NewTopic(fresh("by-aiokafka"), 1, 2)
        answer = await self._client.create_topics([topic])
        failures = [error for _, error, *_ in answer.topic_errors if error]
        if failures:
            raise RuntimeError(f"create_topics: {failures}")

    async def _ask(self) -> None:
        await self._client.list_consumer_group_offsets(self._group)

    def close(self) -> None:
        self._loop.run(self._client.close())


class AiokafkaMember(Member):
    def __init__(self, loop: Loop, access: Access, topic: str, group: str) -> None:
        self._loop = loop
        self._client = loop.run(self._start(access, topic, group))
        super().__init__("aiokafka member", self._read, self._write)

    async def _start(self, access: Access, topic: str, group: str) -> Any:
        client = aiokafka.AIOKafkaConsumer(
            topic,
            **access.aiokafka(),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await client.start()
        return client

    def _read(self) -> list[tuple[int, int]]:
        found = self._loop.run(self._client.getmany(timeout_ms=20))
        return [(r.partition, int(r.value)) for records in found.values() for r in records]

    def _write(self) -> object:
        return self._loop.run(self._client.commit())

    def close(self) -> None:
        super().close()
        self._loop.run(self._client.stop())


def all_clients(loop: Loop, access: Access, topic: str, groups: list[str]) -> list[Client]:
    """Producer, member and admin client of each library; the members' groups are `groups`."""
    first, second, third = groups
    return [
        ConfluentProducer(access, topic),
        ConfluentMember(access, topic, first),
        ConfluentAdmin(access),
        ConfluentOffsets(access, topic, first),
        KafkaPythonProducer(access, topic),
        KafkaPythonMember(access, topic, second),
        KafkaPythonAdmin(access, second),
        AiokafkaProducer(loop, access, topic),
        AiokafkaMember(loop, access, topic, third),
        AiokafkaAdmin(loop, access, third),
    ]
