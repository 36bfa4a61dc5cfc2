"""Clients of a seed that write in two-phase commit (KIP-939): each prepares a transaction and leaves it; a
client that did not write it commits or aborts it later, by producer id and epoch, and often twice.

A prepared transaction has no time-out. However long it waits, and whatever happens to coordinators and
leaders meanwhile, it is committed where that is asked for: a refusal is a :class:`Violation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.client.network.channels import ChannelError
from barnabas.client.producers.record_accumulator import ProducerSettings
from barnabas.client.producers.transaction_coordinator import END_BEFORE_IMPLICIT
from barnabas.client.producers.transactional_producer import (
    PreparedTransaction,
    TransactionalProducer,
    end_prepared,
)
from barnabas.client.records import ProducerRecord
from barnabas.sim.history import Violation
from barnabas.sim.ledger import LEDGER, Attempt
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

NEWEST: dict[int, int] = {ApiKey.INIT_PRODUCER_ID: 6}
"""A version that Kafka calls unstable."""
REFUSED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)


@dataclass(frozen=True)
class PreparerPlan:
    """How one of them works."""

    name: str
    transactional_id: str
    partitions: int
    """The number of partitions of the ledger."""
    pause_ms: float = 100.0
    """Between two transactions, at most."""
    records: int = 4
    waits_ms: float = 8_000.0
    """How long a prepared transaction waits, at most."""
    aborts: float = 0.2
    repeats: float = 0.5
    """How often an end that was answered is asked for again."""


class Preparer:
    """One of them."""

    def __init__(self, workload: Workload, plan: PreparerPlan) -> None:
        self.workload = workload
        self.plan = plan
        self.name = plan.name
        self.client = workload.cluster.client(plan.name, NEWEST)
        self.rng = workload.cluster.world.rng(plan.name)
        self.totals = workload.cluster.world.totals
        self.is_at_work = False

    def start(self) -> None:
        self.is_at_work = True
        self.client.tasks.start(self._work())

    async def _work(self) -> None:
        while not self.workload.stopped:
            await self.client.tasks.sleep(self.rng.uniform(1, self.plan.pause_ms))
            producer = self._producer()
            try:
                await producer.init()
                attempt = await self._write(producer)
                prepared = await producer.prepare()
            except ChannelError as error:
                await self._leave(producer)
                if error.kind == "unsupported":  # where ZooKeeper coordinates the cluster
                    self.is_at_work = False
                    return
                continue
            except KafkaError:
                await self._leave(producer)
                continue
            self.totals["transactions prepared"] += 1
            await self._leave(producer)
            await self._decide(attempt, prepared)
        await self._end_what_is_open()
        self.is_at_work = False

    def _producer(self, *, two_phase: bool = True) -> TransactionalProducer:
        settings = ProducerSettings(
            linger_ms=2.0, request_timeout_ms=4_000, delivery_timeout_ms=20_000
        )
        return TransactionalProducer(
            self.client, self.plan.transactional_id, settings, two_phase=two_phase
        )

    async def _write(self, producer: TransactionalProducer) -> Attempt:
        count = self.rng.randrange(1, self.plan.records + 1)
        ledger = self.workload.ledger
        attempt = ledger.begin(self.plan.transactional_id, 0, count, False)
        producer.begin()
        for _ in range(count):
            partition = self.rng.randrange(self.plan.partitions)
            value = ledger.on_sent(attempt, partition)
            producer.send(ProducerRecord(LEDGER, value, None, partition))
        return attempt

    async def _decide(self, attempt: Attempt, prepared: PreparedTransaction) -> None:
        waits_ms = self.rng.uniform(0, self.plan.waits_ms)
        await self.client.tasks.sleep(self.rng.choice([0.0, waits_ms]))
        commit = self.rng.random() >= self.plan.aborts
        at_most = self.rng.choice([END_BEFORE_IMPLICIT, None])
        attempt.is_asked = commit
        await self._end(prepared, commit, at_most)
        attempt.is_committed = commit and not self.workload.history.is_lost
        self.workload.history.operations += 1
        self.totals["prepared transactions ended"] += 1
        while self.rng.random() < self.plan.repeats:
            await self.client.tasks.sleep(self.rng.uniform(0, 200))
            await self._end(prepared, commit, at_most)

    async def _end(self, prepared: PreparedTransaction, commit: bool, at_most: int | None) -> None:
        """Ask until there is an answer. Raises `Violation` where it is a refusal."""
        while True:
            try:
                await end_prepared(self.client, prepared, commit=commit, at_most=at_most)
                return
            except ChannelError:
                pass
            except KafkaError as error:
                if error.code in REFUSED:
                    if self.workload.history.is_lost:
                        return
                    raise Violation(
                        f"{prepared} was prepared, and its {'commit' if commit else 'abort'} is refused:"
                        f" {error.code.name}"
                    ) from error
            await self.client.tasks.sleep(self.rng.uniform(50, 300))

    async def _end_what_is_open(self) -> None:
        """Nothing else would: it has no time-out. A cluster that has gone back to ZooKeeper has no two-phase
        commit any more, and ends it all the same."""
        while True:
            producer = self._producer(two_phase=False)
            try:
                await producer.init()
                return
            except (ChannelError, KafkaError):
                await self.client.tasks.sleep(200)
            finally:
                await self._leave(producer)

    async def _leave(self, producer: TransactionalProducer) -> None:
        """The producer is not used any more, and ends nothing."""
        gone = KafkaError(ErrorCode.PRODUCER_FENCED, "its client is gone")
        producer.fatal = producer.fatal or gone
        try:
            await producer.close()
        except (ChannelError, KafkaError):
            pass
