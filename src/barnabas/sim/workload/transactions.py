"""Transactional clients of a seed: each takes some records of an imagined source, writes as many into the
ledger and commits the group's offset, all in one transaction; or aborts, or leaves it open, or waits for
longer than the transaction may take. Several may have one transactional id, and who was replaced comes back
as a zombie. A reader of committed records looks on. What they did is in :mod:`barnabas.sim.ledger`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.client.client import GROUP, Client, raise_for
from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.consumers.fetch_requests import FetchSettings
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import EARLIEST, CommittedOffset, GroupIdentity
from barnabas.client.producers.record_accumulator import ProducerSettings
from barnabas.client.producers.transactional_producer import TransactionalProducer
from barnabas.client.records import ProducerRecord
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import Violation
from barnabas.sim.ledger import LEDGER, Attempt, Ledger
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

REQUEST_TIMEOUT_MS = 20_000.0
SOURCE = TopicPartition(LEDGER, 0)
"""Whose offset the groups commit: the source's records are imagined."""


@dataclass(frozen=True)
class ProcessorPlan:
    """How one transactional client works."""

    name: str
    transactional_id: str
    partitions: int
    """The number of partitions of the ledger."""
    pause_ms: float = 60.0
    """Between two transactions, at most."""
    records: int = 4
    """The records of one transaction, at most."""
    timeout_ms: int = 4_000
    aborts: float = 0.2
    """How often it aborts on purpose."""
    dawdles: float = 0.05
    """How often it waits, before it commits, for as long as the transaction may take."""
    leaves: float = 0.1
    """How often another producer follows it while a transaction is open."""
    haunts: float = 0.5
    """How often who was replaced comes back and wants to commit."""
    with_offsets: bool = True
    looks: float = 0.2
    """How often it looks whether what it has committed is there."""
    rest_ms: float = 300.0
    """Until the next producer begins, at most. Those of one id that do not wait fence each other only."""


class Processor:
    """One of them; its producers follow each other."""

    def __init__(self, workload: Workload, plan: ProcessorPlan) -> None:
        self.workload = workload
        self.plan = plan
        self.name = plan.name
        self.ledger: Ledger = workload.ledger
        self.client = self._new_client()
        self.rng = workload.cluster.world.rng(plan.name)
        self.is_at_work = False

    def _new_client(self) -> Client:
        return self.workload.client(self.name)

    def start(self) -> None:
        self.is_at_work = True
        self.client.tasks.start(self._work())

    async def _work(self) -> None:
        while not self.workload.stopped:
            producer = TransactionalProducer(
                self.client,
                self.plan.transactional_id,
                ProducerSettings(
                    linger_ms=2.0, request_timeout_ms=4_000, delivery_timeout_ms=20_000
                ),
                timeout_ms=self.plan.timeout_ms,
            )
            open_one: Attempt | None = None
            try:
                await producer.init()
                self.workload.cluster.world.totals["transactional producers"] += 1
                position = 0
                if self.plan.with_offsets:
                    position = await stable_offset(self.client, self.plan.transactional_id)
                open_one = await self._process(producer, position)
            except (ChannelError, KafkaError):
                self.workload.cluster.world.totals["transactional producers that failed"] += 1
            if open_one is not None and self.rng.random() < self.plan.haunts:
                self.client.tasks.start(self._haunt(producer, open_one))
            else:
                self.client.tasks.start(self._give_up(producer))
            await self.client.tasks.sleep(self.rng.uniform(0.05, 1.0) * self.plan.rest_ms)
        self.is_at_work = False

    async def _process(self, producer: TransactionalProducer, position: int) -> Attempt | None:
        """One transaction after the other; the one that is left open, if it is."""
        plan, rng = self.plan, self.rng
        while not self.workload.stopped:
            await self.client.tasks.sleep(rng.uniform(1, plan.pause_ms))
            attempt = await self._write(producer, position)
            if rng.random() < plan.leaves:
                return attempt
            if rng.random() < plan.aborts:
                await producer.abort()
                self.workload.cluster.world.totals["transactions aborted"] += 1
                continue
            if rng.random() < plan.dawdles:
                await self.client.tasks.sleep(rng.uniform(0.5, 2.0) * plan.timeout_ms)
            await self._commit(producer, attempt)
            position = attempt.behind
            if plan.with_offsets and rng.random() < plan.looks:
                await self._check_position(position)
        return None

    async def _check_position(self, position: int) -> None:
        """The stable offset is this one, or what another producer committed later."""
        found = await stable_offset(self.client, self.plan.transactional_id)
        history = self.workload.history
        gone = history.groups_are_gone or self.plan.transactional_id in history.offsets_expired
        if found < position and not (history.is_lost or gone):
            raise Violation(
                f"{self.plan.transactional_id} has committed offset {position}, and {found} is answered as"
                " stable"
            )

    async def _write(self, producer: TransactionalProducer, position: int) -> Attempt:
        plan = self.plan
        count = self.rng.randrange(1, plan.records + 1)
        attempt = self.ledger.begin(plan.transactional_id, position, count, plan.with_offsets)
        producer.begin()
        for _ in range(count):
            self._send(producer, attempt)
            if self.rng.random() < 0.3:
                await self.client.tasks.sleep(self.rng.uniform(0, 20))
        if plan.with_offsets:
            self.workload.history.commits.begin(
                plan.transactional_id, {(SOURCE.topic, SOURCE.partition): attempt.behind}
            )
            await producer.send_offsets(
                {SOURCE: CommittedOffset(attempt.behind)}, GroupIdentity(plan.transactional_id)
            )
        return attempt

    def _send(self, producer: TransactionalProducer, attempt: Attempt) -> None:
        partition = self.rng.randrange(self.plan.partitions)
        value = self.ledger.on_sent(attempt, partition)
        producer.send(ProducerRecord(LEDGER, value, None, partition))

    async def _commit(self, producer: TransactionalProducer, attempt: Attempt) -> None:
        attempt.is_asked = True
        await producer.commit()
        attempt.is_committed = True
        self.workload.history.operations += 1
        self.workload.cluster.world.totals["transactions committed"] += 1

    async def _haunt(self, producer: TransactionalProducer, attempt: Attempt) -> None:
        """A producer that was replaced does not know it, and continues its transaction."""
        await self.client.tasks.sleep(self.rng.uniform(0, 1.5) * self.plan.timeout_ms)
        try:
            if self.rng.random() < 0.5:
                self._send(producer, attempt)
            await self._commit(producer, attempt)
            self.workload.cluster.world.totals["zombies that committed"] += 1
        except (ChannelError, KafkaError):
            self.workload.cluster.world.totals["zombies that were fenced"] += 1
        await self._give_up(producer)

    async def _give_up(self, producer: TransactionalProducer) -> None:
        """It is not used any more, and ends nothing."""
        producer.fatal = producer.fatal or KafkaError(
            ErrorCode.PRODUCER_FENCED, "its client is gone"
        )
        try:
            await producer.close()
        except (ChannelError, KafkaError):
            pass


async def stable_offset(client: Client, group_id: str) -> int:
    """The offset that the group has committed, once no transaction is pending (KIP-447); 0 where there is
    none."""

    def request() -> OffsetFetchRequest:
        wanted = OffsetFetchRequestTopics(name=SOURCE.topic, partition_indexes=[SOURCE.partition])
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[wanted])],
            require_stable=True,
        )

    def check(response: Any) -> None:
        (group,) = response.groups
        raise_for(group.error_code)
        raise_for(group.topics[0].partitions[0].error_code)

    await client.cluster.ensure({SOURCE.topic: None})
    response = await client.ask_coordinator(
        GROUP, group_id, request, check, timeout_ms=REQUEST_TIMEOUT_MS, at_most=9
    )
    return max(0, int(response.groups[0].topics[0].partitions[0].committed_offset))


class CommittedReader:
    """Reads the ledger as consumers with ``isolation.level=read_committed`` do, all the time."""

    def __init__(self, cluster: SimCluster, ledger: Ledger, name: str, partitions: int) -> None:
        self.ledger = ledger
        self.found: dict[int, dict[int, bytes]] = {p: {} for p in range(partitions)}
        self.consumer = Consumer(
            cluster.client(name),
            None,
            ConsumerSettings(
                auto_offset_reset="earliest", fetch=FetchSettings(read_committed=True)
            ),
            on_data=self._poll_all,
        )
        self.consumer.assign({TopicPartition(LEDGER, p): EARLIEST for p in range(partitions)})

    def _poll_all(self) -> None:
        while records := self.consumer.poll(10_000):
            for record in records:
                value = record.value or b""
                self.ledger.on_read(record.partition, record.offset, value)
                self.found[record.partition][record.offset] = value

    def late(self, ends: dict[int, int]) -> str:
        """The partition that it has not read to its end; empty where there is none."""
        for tp in self.consumer.assignment:
            at = self.consumer.position(tp) or 0
            if at < ends.get(tp.partition, 0):
                return f"{tp} is read to {at} of {ends[tp.partition]}"
        return ""
