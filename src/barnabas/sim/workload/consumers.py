"""Consumers of a seed: members of a group that commit what they took and are replaced now and then, and
the one that reads everything at the end. Beside reading, members seek back, pause, change their
subscription, or block for so long that their group continues without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.consumers.group_member import CLASSIC, GroupMemberSettings
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import EARLIEST
from barnabas.ports import Rng
from barnabas.sim.cluster import ProgramFault, SimCluster
from barnabas.sim.history import Reading, Violation
from barnabas.sim.world.process import SimProcess
from barnabas.types import TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

EPOCHS_SINCE = {ApiKey.METADATA: 7, ApiKey.FETCH: 9}
"""Below these versions clients neither learn leader epochs nor send them (KIP-320)."""

STALL_MS = (300.0, 3_000.0, 8_000.0)
"""The last one is longer than a member's session."""


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
    remote_assignor: str | None = None
    protocol: str = CLASSIC
    """The protocol of the group; where members of one differ, it moves between the kinds while it runs."""
    is_static: bool = False
    """Its place in the group has an instance id, which those who follow each other share (KIP-345)."""
    overlaps: bool = False
    """Who takes its place joins while it is still there."""
    raises: float = 0.0
    """How often its callbacks raise."""
    taken_max: int = 500
    """Records at once."""
    whims_ms: float = 0.0
    """Between two of its whims, at most; 0 is never."""


class ConsumerClient:
    """One member's place in a group; its consumers follow each other."""

    def __init__(self, workload: Workload, plan: ConsumerPlan) -> None:
        self.workload = workload
        self.plan = plan
        self.client = workload.client(plan.name)
        self.rng = workload.cluster.world.rng(plan.name)
        speaks = workload.plan.newest.get(plan.name, {})
        self.names_epochs = all(
            speaks.get(key, least) >= least for key, least in EPOCHS_SINCE.items()
        )
        self.reading = Reading(plan.group, names_epochs=self.names_epochs)
        self.faults = workload.cluster.world.rng(f"{plan.name} raises")
        self.topics = plan.topics
        """To which it subscribes at present."""
        self.paused: set[TopicPartition] = set()
        self.protocol = CLASSIC if speaks else plan.protocol
        """Libraries of old know only one."""
        self.consumer = self._consumer()
        if self.protocol != CLASSIC:
            workload.history.coordinated.add(plan.group)

    def _consumer(self) -> Consumer:
        plan = self.plan
        group = GroupMemberSettings(
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=plan.session_timeout_ms / 4,
            assignors=plan.assignors,
            instance_id=plan.name if plan.is_static else None,
            protocol=self.protocol,
            remote_assignor=plan.remote_assignor,
        )
        consumer = Consumer(
            self.client,
            plan.group,
            ConsumerSettings(auto_offset_reset="earliest", group=group),
            on_data=self._poll_all,
            on_assigned=lambda partitions: self._assigned(consumer, partitions),
            on_revoked=lambda partitions: self._revoked(consumer),
        )
        self.paused.clear()
        return consumer

    def start(self) -> None:
        self.consumer.subscribe(self.topics)
        self.client.tasks.start(self._commit())
        if self.plan.stays_ms:
            self.client.tasks.start(self._come_and_go())
        if self.plan.whims_ms:
            self.client.tasks.start(self._have_whims())
        if self.plan.raises:
            self.client.tasks.start(self._look_again())

    async def _look_again(self) -> None:
        """Take again what is there: a callback that raised may have left records behind."""
        while True:
            await self.client.tasks.sleep(100.0)
            try:
                self._poll_all()
            except ProgramFault:
                pass

    async def _have_whims(self) -> None:
        world = self.workload.cluster.world
        rng = world.rng(f"{self.plan.name} whims")
        while not self.workload.stopped:
            await self.client.tasks.sleep(rng.uniform(0.2, 1.0) * self.plan.whims_ms)
            whim = rng.choice(sorted(WHIMS))
            await WHIMS[whim](self, rng)
            world.totals[f"consumer {whim}"] += 1
        self.topics = self.plan.topics
        self.consumer.subscribe(self.topics)

    def _maybe_raise(self, what: str) -> None:
        if self.plan.raises and not self.workload.stopped:
            if self.faults.random() < self.plan.raises:
                self.workload.cluster.world.totals["callbacks that raised"] += 1
                raise ProgramFault(what)

    async def _commit(self) -> None:
        while not self.workload.stopped:
            await self.client.tasks.sleep(self.rng.uniform(20, self.plan.commit_ms))
            consumer = self.consumer
            positions = {
                tp: offset
                for tp in consumer.assignment
                if (offset := consumer.position(tp)) is not None
            }
            await self._commit_as(consumer, positions)

    async def _commit_as(self, consumer: Consumer, positions: Mapping[TopicPartition, int]) -> bool:
        """Whether it was acknowledged."""
        history, group, who = self.workload.history, self.plan.group, consumer.identity
        newest = history.generations[group]
        attempts = history.commits.begin(
            group, {(tp.topic, tp.partition): offset for tp, offset in positions.items()}
        )
        others = self._of_others(consumer, positions)
        try:
            await consumer.commit(positions)
        except (ChannelError, KafkaError):
            return (
                False  # another member owns it now, or its coordinator is gone: the next one counts
            )
        history.commits.acknowledge(attempts)
        history.operations += len(positions)
        if others and not history.may_have_restarted(group):
            raise Violation(f"{self.plan.name}, {who}, could commit what others had: {others}")
        judged = self.plan.group not in history.coordinated
        if judged and positions and who is not None and 0 <= who.generation < newest:
            raise Violation(
                f"{self.plan.name} could commit {positions} in generation {who.generation} of {group},"
                f" though {newest} had begun"
            )
        return True

    def _of_others(
        self, consumer: Consumer, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Which of these another member of a consumer group was given in a later epoch than this one's. A
        partition that this member has given up does not count: a coordinator lets a member commit what it
        does not own, where its epoch is the present one, as in Kafka."""
        history, group, who = self.workload.history, self.plan.group, consumer.identity
        if who is None or who.generation < 0 or group not in history.coordinated:
            return {}
        me = who.instance_id or who.member_id
        held = {tp: history.holders.get((group, (tp.topic, tp.partition))) for tp in positions}
        return {
            tp: holder
            for tp, holder in held.items()
            if tp in consumer.assignment
            and holder is not None
            and holder[0] > who.generation
            and holder[1] != me
        }

    async def _come_and_go(self) -> None:
        while not self.workload.stopped:
            await self.client.tasks.sleep(self.rng.uniform(0.3, 1.0) * self.plan.stays_ms)
            former, self.consumer = self.consumer, self._consumer()
            self.workload.cluster.world.totals["members replaced"] += 1
            if self.plan.overlaps:
                await self._overlap(former)
            try:
                await former.close()
            except (ChannelError, KafkaError, ProgramFault):
                pass  # its session ends by itself
            if not self.plan.overlaps:
                self.consumer.subscribe(self.topics)

    async def _overlap(self, former: Consumer) -> None:
        """Who follows is there while `former` still takes itself for a member. Where it has its instance id
        nothing of that one counts any more."""
        positions = {
            tp: offset for tp in former.assignment if (offset := former.position(tp)) is not None
        }
        follower = self.consumer
        follower.subscribe(self.topics)
        rng = self.workload.cluster.world.rng(f"{self.plan.name} overlaps")
        for _ in range(3):
            await self.client.tasks.sleep(rng.uniform(0, self.plan.session_timeout_ms / 2))
            if former.failure is not None or not positions:
                return
            is_replaced = self.plan.is_static and follower.is_stable
            counts = await self._commit_as(former, positions) and is_replaced
            if counts and not self.workload.history.may_have_restarted(self.plan.group):
                raise Violation(f"{former} could commit, though {follower} has its instance id")

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is self.consumer:
            self.reading = Reading(self.plan.group, names_epochs=self.names_epochs)
            self.paused.clear()
        identity = consumer.identity
        if identity is not None:
            self.workload.history.on_assigned(
                self.plan.group,
                identity.generation,
                identity.instance_id or identity.member_id,
                [(tp.topic, tp.partition) for tp in partitions],
            )
        self.workload.cluster.world.totals["rebalances"] += 1
        self._maybe_raise("an assignment")

    def _revoked(self, consumer: Consumer) -> None:
        if consumer is self.consumer:
            self.paused.clear()
        self._maybe_raise("a revocation")

    def _poll_all(self) -> None:
        history = self.workload.history
        while records := self.consumer.poll(self.plan.taken_max):
            history.operations += len(records)
            for record in records:
                value = record.value or b""
                history.on_read(record.topic, record.partition, record.offset, value, self.reading)
                if (record.topic, record.partition) in self.paused:
                    raise Violation(f"{self.plan.name} had paused what it was given: {record}")
            self._maybe_raise("data")
        if self.consumer.failure is not None:
            # Fenced: a request of the one before it, with its instance id, came later than its own.
            if self.consumer.failure.code is ErrorCode.UNSUPPORTED_VERSION:
                self.protocol = CLASSIC  # operators switch ``group.version`` off
            self.client.tasks.start(self.consumer.close())
            self.consumer = self._consumer()
            self.consumer.subscribe(self.topics)


async def seek(c: ConsumerClient, rng: Rng) -> None:
    """Back to a place that it has passed, or to the beginning."""
    consumer = c.consumer
    for tp in consumer.assignment:
        position = consumer.position(tp)
        if position is not None and rng.random() < 0.5:
            if rng.random() < 0.3:
                consumer.seek(tp, EARLIEST)
                c.reading.last.pop(tp, None)
            else:
                offset = rng.randrange(position + 1)
                consumer.seek(tp, offset)
                c.reading.last[tp] = offset - 1


async def pause(c: ConsumerClient, rng: Rng) -> None:
    """Some partitions, for a while; a rebalance ends that, too."""
    consumer = c.consumer
    for tp in consumer.assignment:
        if rng.random() < 0.5:
            consumer.pause(tp)
            c.paused.add(tp)
    await c.client.tasks.sleep(rng.uniform(0, 1_000))
    for tp in consumer.assignment if consumer is c.consumer else ():
        consumer.pause(tp, paused=False)
    c.paused.clear()


async def subscribe_again(c: ConsumerClient, rng: Rng) -> None:
    """Now and then twice in a row: the group rebalances already."""
    for _ in range(rng.choice([1, 1, 2])):
        topics = [topic for topic in c.plan.topics if rng.random() < 0.7]
        c.topics = tuple(topics or c.plan.topics)
        c.consumer.subscribe(c.topics)
        await c.client.tasks.sleep(rng.uniform(0, 300))


async def stall(c: ConsumerClient, rng: Rng) -> None:
    process = c.client.ports
    assert isinstance(process, SimProcess)
    process.pause(rng.choice(STALL_MS))


WHIMS: Mapping[str, Callable[[ConsumerClient, Rng], Awaitable[None]]] = {
    "seeks": seek,
    "pauses": pause,
    "subscribes again": subscribe_again,
    "stalls": stall,
}


class FinalRead:
    """Reads whole partitions after everything healed."""

    def __init__(self, cluster: SimCluster, topic: str, partitions: int) -> None:
        self.client = cluster.client("final")
        self.found: dict[int, dict[int, bytes]] = {p: {} for p in range(partitions)}
        # Records may still be deleted while it reads: then it continues at the log start, not at the end.
        settings = ConsumerSettings(auto_offset_reset="earliest")
        self.consumer = Consumer(self.client, None, settings, on_data=self._poll_all)
        self.consumer.assign({TopicPartition(topic, p): EARLIEST for p in range(partitions)})

    def _poll_all(self) -> None:
        while records := self.consumer.poll(10_000):
            for record in records:
                self.found[record.partition][record.offset] = record.value or b""

    def has_read_to(self, ends: dict[int, int]) -> bool:
        return all(
            (self.consumer.position(tp) or 0) >= ends.get(tp.partition, 0)
            for tp in self.consumer.assignment
        )
