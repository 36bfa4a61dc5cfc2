"""What clients do in a simulated cluster: producers, a consumer group, and whoever creates topics.

Everything goes through :mod:`barnabas.client`, as a real program's would. Values are unique, so that the
history can tell each record.
"""

from __future__ import annotations

from functools import partial

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.channels import ChannelError
from barnabas.client.client import Client
from barnabas.client.consumer import Consumer, ConsumerSettings
from barnabas.client.offsets import EARLIEST
from barnabas.client.producer import Producer, ProducerSettings
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.client.tasks import Outcome
from barnabas.ports import Rng
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import History
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

CALM_MS = 60_000.0


class Workload:
    """All clients of one seed."""

    def __init__(self, cluster: SimCluster, history: History, rng: Rng) -> None:
        self.cluster = cluster
        self.history = history
        self.rng = rng
        self.topics: dict[str, int] = {}
        """Name → partitions, of topics whose creation was acknowledged."""
        self.stopped = False
        self.producers = [ProducerClient(self, index) for index in range(2)]
        self.consumers = [ConsumerClient(self, index) for index in range(2)]
        self.admin = cluster.client("admin")

    def start(self) -> None:
        self.admin.tasks.start(self._create("events", 3))

    async def _create(self, name: str, partitions: int) -> None:
        admin = Admin(self.admin)
        while True:
            try:
                outcomes = await admin.create_topics([NewTopic(name, partitions, -1, {})])
                error = outcomes[0].error
                if error is None or error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    break
            except (ChannelError, KafkaError):
                pass
            await self.admin.tasks.sleep(200)
        self.topics[name] = partitions
        self.history.operations += 1
        self.cluster.world.note(f"topic {name} created")
        for producer in self.producers:
            producer.start(name, partitions)
        for consumer in self.consumers:
            consumer.start(name)

    def stop_producing(self) -> None:
        self.stopped = True

    @property
    def unsettled(self) -> int:
        """Sends without an answer yet."""
        return sum(producer.unsettled for producer in self.producers)


class ProducerClient:
    """One idempotent producer that sends at its own pace."""

    def __init__(self, workload: Workload, index: int) -> None:
        self.workload = workload
        self.name = f"producer{index}"
        self.client: Client = workload.cluster.client(self.name)
        self.rng = workload.cluster.world.rng(self.name)
        self.producer = Producer(
            self.client,
            ProducerSettings(linger_ms=2.0, request_timeout_ms=4_000, delivery_timeout_ms=60_000),
        )
        self.count = 0
        self.unsettled = 0

    def start(self, topic: str, partitions: int) -> None:
        self.client.tasks.start(self._produce(topic, partitions))

    async def _produce(self, topic: str, partitions: int) -> None:
        while not self.workload.stopped:
            # Each partition has one producer, so that the order of sending is the order to find.
            mine = [p for p in range(partitions) if p % 2 == int(self.name[-1]) % 2] or [0]
            for _ in range(self.rng.randrange(1, 4)):
                self._send(topic, self.rng.choice(mine))
            await self.client.tasks.sleep(self.rng.uniform(1, 30))

    def _send(self, topic: str, partition: int) -> None:
        self.count += 1
        value = f"{self.name}/{self.count}".encode()
        self.workload.history.on_sent(topic, partition, value)
        self.unsettled += 1
        outcome = self.producer.send(ProducerRecord(topic, value, partition=partition))
        outcome.when_done(partial(self._settled, value))

    def _settled(self, value: bytes, outcome: Outcome[Delivery]) -> None:
        self.unsettled -= 1
        try:
            delivery = outcome.result()
        except (ChannelError, KafkaError):
            self.workload.history.failed.add(value)
            return
        self.workload.history.on_acknowledged(
            delivery.topic, delivery.partition, value, delivery.offset
        )


class ConsumerClient:
    """One member of the group, which commits what it took and is replaced now and then."""

    def __init__(self, workload: Workload, index: int) -> None:
        self.workload = workload
        self.name = f"consumer{index}"
        self.client = workload.cluster.client(self.name)
        self.rng = workload.cluster.world.rng(self.name)
        self.consumer = Consumer(
            self.client,
            "readers",
            ConsumerSettings(auto_offset_reset="earliest"),
            on_data=self._take,
            on_assigned=self._assigned,
        )

    def start(self, topic: str) -> None:
        self.consumer.subscribe([topic])
        self.client.tasks.start(self._commit())

    async def _commit(self) -> None:
        while not self.workload.stopped:
            await self.client.tasks.sleep(self.rng.uniform(50, 400))
            positions = {
                tp: offset
                for tp in self.consumer.assignment
                if (offset := self.consumer.position(tp)) is not None
            }
            try:
                await self.consumer.commit(positions)
            except (ChannelError, KafkaError):
                continue  # another member owns it now, or its coordinator is gone: the next one counts
            for tp, offset in positions.items():
                self.workload.history.on_committed("readers", tp.topic, tp.partition, offset)

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        self.workload.cluster.world.totals["rebalances"] += 1

    def _take(self) -> None:
        for record in self.consumer.take():
            self.workload.history.operations += 1
            self.workload.history.on_read(
                record.topic, record.partition, record.offset, record.value or b""
            )


class FinalRead:
    """Reads whole partitions after everything healed."""

    def __init__(self, cluster: SimCluster, topic: str, partitions: int) -> None:
        self.client = cluster.client("final")
        self.found: dict[int, dict[int, bytes]] = {p: {} for p in range(partitions)}
        self.consumer = Consumer(self.client, None, ConsumerSettings(), on_data=self._take)
        self.consumer.assign({TopicPartition(topic, p): EARLIEST for p in range(partitions)})

    def _take(self) -> None:
        for record in self.consumer.take(10_000):
            self.found[record.partition][record.offset] = record.value or b""

    def has_read_to(self, ends: dict[int, int]) -> bool:
        return all(
            (self.consumer.position(tp) or 0) >= ends.get(tp.partition, 0)
            for tp in self.consumer.assignment
        )
