"""Clients of transaction.version 2 that begin each transaction as soon as the one before is answered.

The coordinator has answered then, and the partitions do not have the markers yet (KIP-890): the next
transaction's first writes and its end arrive while the one before is being ended. Each client has a
transactional id of its own and no time-out, so that nothing may fence it: any error that says so is a
violation. The epochs of some of them are near the end every few transactions, where the producer id changes.
Some leave a transaction whose first batch is not answered yet, and their next producer ends it while the
partition's leader waits for the coordinator's answer. A postman delivers markers once more, later, as a
connection that was given up may do.
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
from barnabas.transaction.outcome import SendMarkers, TransactionOutcome
from barnabas.transaction.states import AT_REST
from barnabas.transaction.transaction import BUMPS_EPOCH_SINCE, CLIENT_EPOCH_MAX, Transaction
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
    """How many epochs a producer's id has left at its beginning; None leaves the first one."""
    turns: int = 1_000_000
    """The transactions of one producer, at most."""


@dataclass(frozen=True)
class StallPlan:
    """How connections between brokers stall."""

    every_ms: float
    """The time between two of them, on the average."""
    longest_ms: float


class EagerProcessor(Processor):
    """One client, with one producer as long as that is possible."""

    plan: EagerPlan

    def __init__(self, workload: Workload, plan: EagerPlan) -> None:
        super().__init__(workload, plan)
        self._turns_rng = workload.cluster.world.rng(f"{plan.name} turns")

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
                if await self._follow(producer):
                    self.client.tasks.start(self._give_up(producer))
                    continue
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

    async def _follow(self, producer: TransactionalProducer) -> bool:
        """One transaction after the other. Returns whether the next producer follows at once, after the turns
        of this one or because it left a transaction open."""
        position = 0
        if self.plan.with_offsets:
            position = await stable_offset(self.client, self.plan.transactional_id)
        turns = self._turns_rng.randrange(1, self.plan.turns + 1)
        while not self.workload.stopped:
            if turns == 0:
                return True
            turns -= 1
            attempt: Attempt | None = None
            try:
                attempt = await self._write(producer, position)
                if self._turns_rng.random() < self.plan.leaves:
                    await self._leave()
                    return True
                await self._pause()
            except (ChannelError, KafkaError) as error:
                self._judge(error)
            if attempt is None or self.rng.random() < self.plan.aborts:
                await self._hesitate()
                await producer.abort()
                self.workload.cluster.world.totals["transactions aborted at once"] += 1
            else:
                await self._commit(producer, attempt)
                position = attempt.behind
        return False

    async def _leave(self) -> None:
        """Wait until the leader has asked the coordinator, perhaps, and not until it has the answer."""
        longest_ms = self._turns_rng.choice([3.0, 10.0, 40.0])
        self.workload.cluster.world.totals["transactions left at once"] += 1
        await self.client.tasks.sleep(self._turns_rng.uniform(0, longest_ms))

    async def _hesitate(self) -> None:
        """Abort at once, or when the first batches have been refused, perhaps, and wait to be sent again."""
        if self._turns_rng.random() < 0.7:
            longest_ms = self._turns_rng.choice([6.0, 30.0])
            await self.client.tasks.sleep(self._turns_rng.uniform(0, longest_ms))

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
        done."""
        if self.plan.epochs_left is None:
            return False
        epoch, name = CLIENT_EPOCH_MAX - self.plan.epochs_left, self.plan.transactional_id
        for node in self.workload.cluster.up():
            coordinators = node.broker and node.broker.transactions.coordinators
            for shard in coordinators.shards.values() if coordinators else ():
                known = shard.machine.ids.get(name) if shard.active else None
                if coordinators and known is not None and _may_move(known, epoch):
                    level = node.broker.transactions.level() if node.broker else 0
                    record = record_of(level, name, known._replace(producer_epoch=epoch))
                    moved = TransactionOutcome([record])
                    coordinators.write(name, partial(_decided, moved))
                    self.workload.cluster.world.totals["producers near their last epoch"] += 1
                    return True
        return False


def _may_move(known: Transaction, epoch: int) -> bool:
    return known.state in AT_REST and known.producer_epoch < epoch


def _decided(
    outcome: TransactionOutcome, machine: TransactionMachine, at: Instant
) -> TransactionOutcome:
    """The operation that decides just this."""
    return outcome


class Staller:
    """Stalls connections between brokers, as a lost packet does until it is sent again: one of them, so that
    an answer comes after what was sent later on another one, or all that a coordinator with markers on their
    way has opened, so that transactions are being ended for longer."""

    def __init__(self, workload: Workload, plan: StallPlan) -> None:
        self._workload = workload
        self._plan = plan
        self._client = workload.client("staller")
        self._rng = workload.cluster.world.rng("staller")

    def start(self) -> None:
        self._client.tasks.start(self._work())

    async def _work(self) -> None:
        while not self._workload.stopped:
            await self._client.tasks.sleep(self._rng.uniform(0, 2 * self._plan.every_ms))
            self._stall(self._rng.uniform(0, self._plan.longest_ms))

    def _stall(self, wait_ms: float) -> None:
        cluster = self._workload.cluster
        brokers = [node for node in cluster.up() if node.broker is not None]
        hosts = {node.machine.host for node in brokers}
        if self._rng.random() < 0.5:
            senders = {
                node.machine.host
                for node in brokers
                if node.broker and any(node.broker.transactions.markers.asked())
            }
            stalled = cluster.network.busy_streams(senders, hosts)
        else:
            busy = cluster.network.busy_streams(hosts, hosts)
            stalled = [self._rng.choice(busy)] if busy else []
        for stream in stalled:
            stream.stalled_until_ms = cluster.world.now_ms + wait_ms
        cluster.world.totals["connections stalled"] += len(stalled)


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
