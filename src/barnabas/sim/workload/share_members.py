"""Members of share groups in a seed: they accept, release, reject and renew, dawdle, leave and fall silent.

Their topic has no other readers, and operators do not know it: nothing of it is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.client.admin import Admin
from barnabas.client.client import Client
from barnabas.client.consumers.group_member import GroupMemberSettings
from barnabas.client.consumers.share_consumer import (
    EXPLICIT,
    ShareConsumer,
    ShareConsumerSettings,
)
from barnabas.client.consumers.share_requests import Acknowledged
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.consumers.share_session import ShareFetchSettings
from barnabas.client.network.channels import ChannelError
from barnabas.client.records import DeliveredRecord
from barnabas.metadata.image.image import GROUP
from barnabas.sim.share_ledger import FINAL, SHARED, ShareLedger
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

REST_MS = (5.0, 40.0)


@dataclass(frozen=True)
class ShareMemberPlan:
    """How one member of a share group works."""

    name: str
    group: str
    mode: str = EXPLICIT
    strict: bool = False
    records_max: int = 500
    taken_max: int = 500
    works_ms: float = 20.0
    """How long it works on what it took, at most."""
    dawdles: float = 0.0
    """How often it works for longer than a lock lasts."""
    kinds: tuple[Acknowledge, ...] = (Acknowledge.ACCEPT,)
    """The kinds of acknowledgement that it chooses from."""
    commits: float = 0.5
    """How often it waits for the answers."""
    leaves: float = 0.0
    """How often it leaves with records in hand, and another member takes its place."""
    vanishes: float = 0.0
    """How often it is replaced without a word."""


@dataclass(frozen=True)
class SharesPlan:
    """The share groups of a seed."""

    partitions: int
    members: tuple[ShareMemberPlan, ...]
    deliveries_max: int
    lock_ms: int
    configs: Mapping[str, str]
    """Settings of each group."""

    @property
    def groups(self) -> list[str]:
        return sorted({member.group for member in self.members})


class ShareMemberClient:
    """One member's place in a share group; its consumers follow each other."""

    def __init__(self, workload: Workload, plan: ShareMemberPlan, ledger: ShareLedger) -> None:
        assert workload.plan.shares is not None
        self.workload = workload
        self.plan = plan
        self.ledger = ledger
        self.lock_ms = workload.plan.shares.lock_ms
        self.world = workload.cluster.world
        self.client = workload.client(plan.name)
        """The place's own; the consumer has another one, which ends without a word."""
        self.rng = self.world.rng(plan.name)
        self.member_client = workload.client(f"{plan.name} in its group")
        self.consumer = self._consumer()
        self._lost = 0
        self._taken: list[DeliveredRecord] = []
        """The records of the last poll."""

    def _consumer(self) -> ShareConsumer:
        plan = self.plan
        fetch = ShareFetchSettings(
            wait_ms_max=300,
            records_max=plan.records_max,
            strict=plan.strict,
            request_timeout_ms=4_000.0,
        )
        group = GroupMemberSettings(session_timeout_ms=4_000)
        settings = ShareConsumerSettings(plan.mode, fetch, group)
        consumer = ShareConsumer(
            self.member_client, plan.group, settings,
            on_outcome=lambda answer: self._on_answer(consumer.member_id, answer),
        )  # fmt: skip
        return consumer

    def start(self) -> None:
        self.consumer.subscribe([SHARED])
        self.client.tasks.start(self._work())

    async def _work(self) -> None:
        while True:
            if self.consumer.failure is not None:
                self.world.note(f"{self.plan.name} begins again: {self.consumer.failure}")
                await self._replace(closes=True)
            records = self._take()
            if not records:
                await self.client.tasks.sleep(self.rng.uniform(*REST_MS))
                continue
            await self._work_on(records)
            stops = self.workload.stopped
            if not stops and self.rng.random() < self.plan.commits:
                for record in self._taken:
                    if self.plan.mode != EXPLICIT:
                        self._last_word(record)
                    self.ledger.on_said(
                        self.plan.group, self._member, record.partition, record.offset
                    )
                await self.consumer.commit(5_000.0)
                self._note_lost()

    def _take(self) -> list[DeliveredRecord]:
        consumer, history = self.consumer, self.workload.history
        for record in self._taken if self.plan.mode != EXPLICIT else ():
            self._last_word(record)
        for record in self._taken:
            self.ledger.on_said(self.plan.group, self._member, record.partition, record.offset)
        self._taken = records = consumer.poll(self.plan.taken_max)
        self._note_lost()
        history.operations += len(records)
        self.world.totals["share deliveries"] += len(records)
        for record in records:
            origin = consumer.origin(record)
            assert origin is not None
            member, now_ms = self._member, self.world.now_ms
            self.ledger.on_delivered(self.plan.group, member, record, origin, now_ms)
            history.on_read(record.topic, record.partition, record.offset, record.value or b"")
        return records

    async def _work_on(self, records: list[DeliveredRecord]) -> None:
        plan, rng = self.plan, self.rng
        if self.workload.stopped:
            kinds: tuple[Acknowledge, ...] = (Acknowledge.ACCEPT,)
        else:
            kinds = plan.kinds
            slow = rng.random() < plan.dawdles
            await self.client.tasks.sleep(
                rng.uniform(0.5, 1.5) * self.lock_ms if slow else rng.uniform(0, plan.works_ms)
            )
            leaves = rng.random()
            if leaves < plan.leaves + plan.vanishes:
                await self._replace(closes=leaves < plan.leaves)
                return
        if plan.mode != EXPLICIT:
            return
        renewed: list[DeliveredRecord] = []
        for record in records:
            kind = rng.choice(kinds)
            self._say(record, kind)
            self.world.totals[f"share {kind.name.lower()}"] += 1
            if kind is Acknowledge.RENEW:
                renewed.append(record)
        if renewed:
            await self.consumer.commit(5_000.0)
            await self.client.tasks.sleep(rng.uniform(0, plan.works_ms))
            for record in renewed:
                if self.consumer.origin(record) is not None:
                    self._say(record, Acknowledge.ACCEPT)

    def _say(self, record: DeliveredRecord, kind: Acknowledge) -> None:
        self.ledger.on_said(self.plan.group, self._member, record.partition, record.offset)
        if kind in FINAL:
            self._last_word(record)
        self.consumer.acknowledge(record, kind)

    def _last_word(self, record: DeliveredRecord) -> None:
        self.ledger.on_last_word(self.plan.group, self._member, record.partition, record.offset)

    async def _replace(self, *, closes: bool) -> None:
        """Another member takes the place, on a connection of its own; this one leaves, or falls silent."""
        former = self.consumer
        for record in self._taken:
            self.ledger.on_said(self.plan.group, self._member, record.partition, record.offset)
        self._taken = []
        self.world.totals["share members left" if closes else "share members vanished"] += 1
        if closes:
            try:
                await former.close(5_000.0)
            except (ChannelError, KafkaError):
                pass  # its session ends by itself
        else:
            self.ledger.on_vanished(self.plan.group, self._member)
            self.member_client.close()
            self.member_client = self.workload.client(f"{self.plan.name} in its group")
            for _ in range(self.workload.cluster.topology.nodes):  # a session with each
                self.ledger.on_lost(self.plan.group, self.world.now_ms)
        self._note_lost()
        self._lost = 0
        self.consumer = self._consumer()
        self.consumer.subscribe([SHARED])

    @property
    def _member(self) -> str:
        return self.consumer.member_id

    def _note_lost(self) -> None:
        while self._lost < self.consumer.lost:
            self._lost += 1
            self.ledger.on_lost(self.plan.group, self.world.now_ms)

    def _on_answer(self, member_id: str, answer: Acknowledged) -> None:
        if answer.error is None:
            self.workload.history.operations += 1
        else:
            self.world.totals["share acknowledgements refused"] += 1
        self.ledger.on_answer(self.plan.group, member_id, answer, self.world.now_ms)


async def configure(client: Client, plan: SharesPlan) -> None:
    """Set what the groups need, until it is done."""
    for group in plan.groups:
        while True:
            try:
                await Admin(client).alter_configs(GROUP, group, plan.configs)
                break
            except (ChannelError, KafkaError):
                await client.tasks.sleep(200)
