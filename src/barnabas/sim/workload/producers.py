"""Producers of a seed: each writes to partitions of its own, so that the order of sending is the order
to find."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.producer import Producer, ProducerSettings
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.record.compression import Codec
from barnabas.sim.cluster import ProgramFault
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload


@dataclass(frozen=True)
class ProducerPlan:
    """How one producer writes."""

    name: str
    topic: str
    partitions: tuple[int, ...]
    """All of them are its own."""
    acks: int = -1
    idempotent: bool = True
    linger_ms: float = 2.0
    pause_ms: float = 30.0
    """Between two bursts, at most."""
    burst: int = 3
    """Records at once, at most."""
    value_bytes: int = 0
    """Padding behind what makes a value unique."""
    codec: Codec = Codec.NONE
    keys: int = 0
    """From how many keys each record gets one; 0: records have no key."""
    raises: float = 0.0
    """How often the callback raises that receives the outcome of a record."""


class ProducerClient:
    """One producer that sends at its own pace."""

    def __init__(self, workload: Workload, plan: ProducerPlan) -> None:
        self.workload = workload
        self.plan = plan
        self.client = workload.client(plan.name)
        self.rng = workload.cluster.world.rng(plan.name)
        self.producer = Producer(
            self.client,
            ProducerSettings(
                acks=plan.acks,
                codec=plan.codec,
                idempotent=plan.idempotent,
                linger_ms=plan.linger_ms,
                request_timeout_ms=4_000,
                delivery_timeout_ms=60_000,
            ),
        )
        self.faults = workload.cluster.world.rng(f"{plan.name} raises")
        self.count = 0
        self.unsettled = 0

    def start(self) -> None:
        self.client.tasks.start(self._produce())

    async def _produce(self) -> None:
        plan = self.plan
        while not self.workload.stopped:
            for _ in range(self.rng.randrange(1, plan.burst + 1)):
                self.send(self.rng.choice(plan.partitions))
            await self.client.tasks.sleep(self.rng.uniform(1, plan.pause_ms))

    def send(self, partition: int) -> None:
        self.count += 1
        topic = self.plan.topic
        value = f"{self.plan.name}/{self.count}".encode().ljust(self.plan.value_bytes, b".")
        key = None
        if self.plan.keys:
            key = self.workload.history.keys[value] = b"%d" % self.rng.randrange(self.plan.keys)
        self.workload.history.on_sent(topic, partition, value)
        self.unsettled += 1
        outcome = self.producer.send(ProducerRecord(topic, value, key, partition))
        outcome.when_done(partial(self._settled, value))

    def _settled(self, value: bytes, outcome: TaskOutcome[Delivery]) -> None:
        self.unsettled -= 1
        history = self.workload.history
        try:
            delivery = outcome.result()
        except (ChannelError, KafkaError):
            history.failed.add(value)
            if not self.workload.stopped:  # as who writes one record after the other does
                self.send(self.rng.choice(self.plan.partitions))
        else:
            history.on_acknowledged(delivery.topic, delivery.partition, value, delivery.offset)
        if self.plan.raises and self.faults.random() < self.plan.raises:
            self.workload.cluster.world.totals["callbacks that raised"] += 1
            raise ProgramFault("a delivery")
