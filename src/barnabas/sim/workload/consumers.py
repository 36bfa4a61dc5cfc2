"""Consumers of a seed: members of a group that commit what they took and are replaced now and then, and
the one that reads everything at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.client.channels import ChannelError
from barnabas.client.consumer import Consumer, ConsumerSettings
from barnabas.client.group_member import GroupSettings
from barnabas.client.offsets import EARLIEST
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import Reading
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload


@dataclass(frozen=True)
class ConsumerPlan:
    """How one member of a group reads."""

    name: str
    group: str
    topics: tuple[str, ...]
    commit_ms: float = 400.0
    """Between two commits, at most."""
    stays_ms: float = 0.0
    """After how long, at most, it leaves its group and another takes its place; 0 is never."""
    session_timeout_ms: int = 6_000
    assignors: Sequence[str] = ("range", "roundrobin")
    is_static: bool = False
    """Its place in the group has an instance id, which those who follow each other share (KIP-345)."""


class ConsumerClient:
    """One member's place in a group; its consumers follow each other."""

    def __init__(self, workload: Workload, plan: ConsumerPlan) -> None:
        self.workload = workload
        self.plan = plan
        self.client = workload.client(plan.name)
        self.rng = workload.cluster.world.rng(plan.name)
        self.reading = Reading(plan.group)
        self.consumer = self._consumer()

    def _consumer(self) -> Consumer:
        plan = self.plan
        group = GroupSettings(
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=plan.session_timeout_ms / 4,
            assignors=plan.assignors,
            instance_id=plan.name if plan.is_static else None,
        )
        consumer = Consumer(
            self.client,
            plan.group,
            ConsumerSettings(auto_offset_reset="earliest", group=group),
            on_data=self._take,
            on_assigned=lambda partitions: self._assigned(consumer, partitions),
        )
        return consumer

    def start(self) -> None:
        self.consumer.subscribe(self.plan.topics)
        self.client.tasks.start(self._commit())
        if self.plan.stays_ms:
            self.client.tasks.start(self._come_and_go())

    async def _commit(self) -> None:
        while not self.workload.stopped:
            await self.client.tasks.sleep(self.rng.uniform(20, self.plan.commit_ms))
            consumer = self.consumer
            positions = {
                tp: offset
                for tp in consumer.assignment
                if (offset := consumer.position(tp)) is not None
            }
            commits = self.workload.history.commits
            attempts = commits.begin(
                self.plan.group,
                {(tp.topic, tp.partition): offset for tp, offset in positions.items()},
            )
            try:
                await consumer.commit(positions)
            except (ChannelError, KafkaError):
                continue  # another member owns it now, or its coordinator is gone: the next one counts
            commits.acknowledge(attempts)
            self.workload.history.operations += len(positions)

    async def _come_and_go(self) -> None:
        while not self.workload.stopped:
            await self.client.tasks.sleep(self.rng.uniform(0.3, 1.0) * self.plan.stays_ms)
            former, self.consumer = self.consumer, self._consumer()
            self.workload.cluster.world.totals["members replaced"] += 1
            try:
                await former.close()
            except (ChannelError, KafkaError):
                pass  # its session ends by itself
            self.consumer.subscribe(self.plan.topics)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.reading = Reading(self.plan.group)
        identity = consumer.identity
        if identity is not None:
            self.workload.history.on_assigned(
                self.plan.group,
                identity.generation,
                identity.instance_id or identity.member_id,
                [(tp.topic, tp.partition) for tp in partitions],
            )
        self.workload.cluster.world.totals["rebalances"] += 1

    def _take(self) -> None:
        history = self.workload.history
        while records := self.consumer.take():
            history.operations += len(records)
            for record in records:
                value = record.value or b""
                history.on_read(record.topic, record.partition, record.offset, value, self.reading)
        if self.consumer.failure is not None:
            # Fenced: a request of the one before it, with its instance id, came later than its own.
            self.client.tasks.start(self.consumer.close())
            self.consumer = self._consumer()
            self.consumer.subscribe(self.plan.topics)


class FinalRead:
    """Reads whole partitions after everything healed."""

    def __init__(self, cluster: SimCluster, topic: str, partitions: int) -> None:
        self.client = cluster.client("final")
        self.found: dict[int, dict[int, bytes]] = {p: {} for p in range(partitions)}
        # Records may still be deleted while it reads: then it goes on where they begin, not at the end.
        settings = ConsumerSettings(auto_offset_reset="earliest")
        self.consumer = Consumer(self.client, None, settings, on_data=self._take)
        self.consumer.assign({TopicPartition(topic, p): EARLIEST for p in range(partitions)})

    def _take(self) -> None:
        while records := self.consumer.take(10_000):
            for record in records:
                self.found[record.partition][record.offset] = record.value or b""

    def has_read_to(self, ends: dict[int, int]) -> bool:
        return all(
            (self.consumer.position(tp) or 0) >= ends.get(tp.partition, 0)
            for tp in self.consumer.assignment
        )
