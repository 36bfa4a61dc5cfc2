"""Clients of transaction.version 2 that begin each transaction as soon as the one before is answered.

The coordinator has answered then, and the partitions do not have the markers yet (KIP-890): the next
transaction's first writes and its end arrive while the one before is being ended. Each client has a
transactional id of its own and no time-out, so that nothing may fence it: any error that says so is a
violation. The epochs of some of them begin near the end, where the producer id changes. A postman delivers
markers once more, later, as a connection that was given up may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.producers.record_accumulator import ProducerSettings
from barnabas.client.producers.transactional_producer import TransactionalProducer
from barnabas.sim.history import Violation
from barnabas.sim.ledger import Attempt
from barnabas.sim.workload.prepared import NEWEST
from barnabas.sim.workload.transactions import Processor, ProcessorPlan, stable_offset
from barnabas.transaction.machine import TransactionMachine, record_of
from barnabas.transaction.outcome import Outcome, SendMarkers
from barnabas.transaction.states import AT_REST
from barnabas.transaction.transaction import BUMPS_EPOCH_SINCE, CLIENT_EPOCH_MAX
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

FENCING = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Errors that no producer gets whose transactional id no other client uses."""


@dataclass(frozen=True)
class EagerPlan(ProcessorPlan):
    """How one of them works."""

    epochs_left: int | None = None
    """How many epochs its producer id has left at the beginning; None leaves the first one."""


class EagerProcessor(Processor):
    """One client, with one producer as long as that is possible."""

    plan: EagerPlan

    def __init__(self, workload: Workload, plan: EagerPlan) -> None:
        super().__init__(workload, plan)
        self._epochs_left = plan.epochs_left

    def _new_client(self) -> Client:
        return self.workload.cluster.client(self.name, NEWEST)

    def _producer(self) -> TransactionalProducer:
        settings = ProducerSettings(
            linger_ms=0.0, request_timeout_ms=4_000, delivery_timeout_ms=20_000
        )
        return TransactionalProducer(
            self.client, self.plan.transactional_id, settings, two_phase=True
        )

    async def _work(self) -> None:
        while not self.workload.stopped:
            producer = self._producer()
            try:
                await producer.init()
                if self._move_epoch():
                    await producer.init()
                await self._follow(producer)
            except (ChannelError, KafkaError) as error:
                self._judge(error)
            await self._give_up(producer)
            await self.client.tasks.sleep(self.rng.uniform(0.05, 1.0) * self.plan.rest_ms)
        await self._end_what_is_open()
        self.is_at_work = False

    async def _end_what_is_open(self) -> None:
        """It has no time-out: only its next producer ends it."""
        while True:
            producer = self._producer()
            try:
                await producer.init()
            except (ChannelError, KafkaError):
                await self.client.tasks.sleep(self.plan.rest_ms)
            else:
                await producer.close()
                return

    async def _follow(self, producer: TransactionalProducer) -> None:
        """One transaction after the other."""
        position = 0
        if self.plan.with_offsets:
            position = await stable_offset(self.client, self.plan.transactional_id)
        while not self.workload.stopped:
            attempt: Attempt | None = None
            try:
                attempt = await self._write(producer, position)
                await self._pause()
            except (ChannelError, KafkaError) as error:
                self._judge(error)
            if attempt is None or self.rng.random() < self.plan.aborts:
                await producer.abort()
                self.workload.cluster.world.totals["transactions aborted at once"] += 1
            else:
                await self._commit(producer, attempt)
                position = attempt.behind

    async def _pause(self) -> None:
        if self.rng.random() < 0.2:
            await self.client.tasks.sleep(self.rng.uniform(0, self.plan.pause_ms))

    def _judge(self, error: Exception) -> None:
        if (
            isinstance(error, KafkaError)
            and error.code in FENCING
            and not self.workload.history.is_lost
        ):
            raise Violation(f"{self.name} is alone with its transactional id and received: {error}")

    def _move_epoch(self) -> bool:
        """Many transactions later: the coordinator has one of the last epochs. Returns whether it could be
        done; it is done once."""
        if self._epochs_left is None:
            return False
        epoch, name = CLIENT_EPOCH_MAX - self._epochs_left, self.plan.transactional_id
        for node in self.workload.cluster.up():
            coordinators = node.broker and node.broker.transactions.coordinators
            for shard in coordinators.shards.values() if coordinators else ():
                known = shard.machine.ids.get(name) if shard.active else None
                if coordinators and known is not None and known.state in AT_REST:
                    level = node.broker.transactions.level() if node.broker else 0
                    record = record_of(level, name, known._replace(producer_epoch=epoch))
                    moved = Outcome([record])
                    coordinators.write(name, partial(_decided, moved))
                    self._epochs_left = None
                    self.workload.cluster.world.totals["producers near their last epoch"] += 1
                    return True
        return False


def _decided(outcome: Outcome, machine: TransactionMachine, at: Instant) -> Outcome:
    """The operation that decides just this."""
    return outcome


class MarkerPostman:
    """Delivers markers once more that a coordinator has sent, while and after their transactions end."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._client = workload.client("postman")
        self._rng = workload.cluster.world.rng("postman")

    def start(self) -> None:
        self._client.tasks.start(self._work())

    async def _work(self) -> None:
        while not self._workload.stopped:
            await self._client.tasks.sleep(self._rng.uniform(1, 30))
            for node in self._workload.cluster.up():
                if node.broker is None:
                    continue
                shards = node.broker.transactions.coordinators.shards
                for partition, markers in node.broker.transactions.markers.asked():
                    shard = shards.get(partition)
                    if shard is not None and markers.ending.client_version >= BUMPS_EPOCH_SINCE:
                        for place in markers.ending.partitions:
                            if self._rng.random() < 0.2:
                                again = self._deliver(place, markers, shard.leader_epoch)
                                self._client.tasks.start(again)

    async def _deliver(self, place: TopicPartition, markers: SendMarkers, epoch: int) -> None:
        await self._client.tasks.sleep(self._rng.choice([1.0, 20.0, 400.0]) * self._rng.random())
        topic = WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])
        marker = WritableTxnMarker(
            producer_id=markers.ending.producer_id,
            producer_epoch=markers.ending.producer_epoch,
            transaction_result=markers.commit,
            topics=[topic],
            coordinator_epoch=epoch,
            transaction_version=markers.ending.client_version,
        )
        for node in self._workload.cluster.up():
            known = node.broker and node.broker.image.topics_by_name.get(place.topic)
            if known and known.has(place.partition) and known.leader[place.partition] == node.id:
                try:
                    await self._client.cluster.ensure({place.topic: None})
                    await self._client.ask_node(node.id, WriteTxnMarkersRequest(markers=[marker]))
                    self._workload.cluster.world.totals["markers delivered once more"] += 1
                except (ChannelError, KafkaError):
                    pass
                return
