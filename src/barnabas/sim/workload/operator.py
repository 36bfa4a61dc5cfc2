"""The acts of operators while clients work: they create and delete topics, move replicas, elect preferred
leaders, change settings, delete old records, and describe the cluster.

An operator does one thing after the other; a refusal or a time-out is an answer like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client.admin import BROKER, TOPIC, Admin, NewTopic
from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.producers.producer import Producer, ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.sim.history import Violation
from barnabas.sim.workload.administration import (
    ADMINISTRATION,
    NOT_WHERE_DATA_IS_LOST,
    REQUEST_TIMEOUT_MS,
    SETTINGS,
    maybe_cancel,
    move_replicas,
)
from barnabas.sim.workload.groups import GROUPS
from barnabas.sim.workload.recreated_topics import READ
from barnabas.types import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest

if TYPE_CHECKING:
    from barnabas.sim.workload.workload import Workload

COORDINATORS_TOO_MANY = 5
"""More partitions than the swarm gives the coordinators' topics."""


class Operator:
    """One administrator with a mix of habits."""

    def __init__(
        self, workload: Workload, name: str, weights: Mapping[str, float], pause_ms: float
    ) -> None:
        """`weights` says how often each of `HABITS` comes, `pause_ms` how long it rests at most."""
        self.workload = workload
        self.name = name
        unfair = NOT_WHERE_DATA_IS_LOST if workload.loses_data else ()
        self.weights = {
            habit: weights[habit]
            for habit in sorted(weights)
            if weights[habit] > 0 and habit not in unfair
        }
        self.pause_ms = pause_ms
        self.client = workload.client(name)
        self.rng = workload.cluster.world.rng(name)
        self.levels = workload.cluster.world.rng(f"{name} levels")
        self.old_client: Client | None = None
        self.admin = Admin(self.client)
        self.temporary: list[str] = []
        """Topics that it made, to delete some day."""
        self.made = 0
        self.to_undo: dict[str, Callable[[], Awaitable[None]]] = {}
        """The settings that it made for a while, and how they are taken back."""
        self.is_at_work = False

    def start(self) -> None:
        if self.weights:
            self.is_at_work = True
            self.client.tasks.start(self._work())

    async def _work(self) -> None:
        totals = self.workload.cluster.world.totals
        while not self.workload.stopped:
            await self.client.tasks.sleep(self.rng.uniform(0.2, 1.0) * self.pause_ms)
            habit = self._choose()
            try:
                await HABITS[habit](self)
            except (ChannelError, KafkaError) as error:
                totals["operators refused"] += 1
                self.workload.cluster.world.note(f"{self.name}: {habit}: {error}")
            else:
                totals[f"operator {habit}"] += 1
                self.workload.history.operations += 1
        while self.to_undo:
            try:
                await self.undo(min(self.to_undo))
            except (ChannelError, KafkaError):
                await self.client.tasks.sleep(200)
        self.is_at_work = False

    async def undo(self, what: str) -> None:
        await self.to_undo[what]()
        del self.to_undo[what]

    def _choose(self) -> str:
        left = self.rng.random() * sum(self.weights.values())
        for habit, weight in self.weights.items():
            left -= weight
            if left <= 0:
                return habit
        return next(reversed(self.weights))

    def any_partition(self) -> tuple[str, int]:
        topics = self.workload.topics
        topic = self.rng.choice(sorted(topics))
        return topic, self.rng.randrange(topics[topic])

    async def ask(self, request: Callable[[], Any]) -> Any:
        return await self.client.ask_any(request, timeout_ms=REQUEST_TIMEOUT_MS)


async def create_topic(o: Operator) -> None:
    """One with partitions of its own that no client writes to."""
    o.made += 1
    name = f"{o.name}-{o.made}"
    o.temporary.append(name)
    topic = NewTopic(name, o.rng.randrange(1, 4), o.workload.replication, {})
    (outcome,) = await o.admin.create_topics([topic], timeout_ms=REQUEST_TIMEOUT_MS)
    if outcome.error is None:
        o.workload.history.topics[name] = topic.partitions
    elif outcome.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome.error


async def delete_topic(o: Operator) -> None:
    if not o.temporary:
        await create_topic(o)
        return
    name = o.temporary.pop(0)
    o.workload.history.topics.pop(name, None)  # from now on it may be gone
    (outcome,) = await o.admin.delete_topics([name], timeout_ms=REQUEST_TIMEOUT_MS)
    if outcome.error is not None and outcome.error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise outcome.error


async def grow_topic(o: Operator) -> None:
    if not o.temporary:
        await create_topic(o)
        return
    await o.admin.create_partitions(
        o.temporary[-1], 4 + o.rng.randrange(3), timeout_ms=REQUEST_TIMEOUT_MS
    )


async def reassign(o: Operator) -> None:
    """Other replicas for a partition, as many as before; now and then a change of mind."""
    topic, partition = o.any_partition()
    brokers = list(o.workload.cluster.topology.broker_ids)
    o.rng.shuffle(brokers)
    cancels = o.rng.random() < 0.25
    replicas = None if cancels else brokers[: o.workload.replication]
    await move_replicas(o, topic, partition, replicas)
    if not cancels:
        await maybe_cancel(o, topic, partition)


async def change_directory(o: Operator) -> None:
    """Another log directory for a replica of some broker, or the one that it is in."""
    topology = o.workload.cluster.topology
    if topology.directories < 2:
        return
    topic, partition = o.any_partition()
    node = o.rng.choice(list(topology.broker_ids))
    number = o.rng.randrange(1, topology.directories + 1)
    path = "/data" if number == 1 else f"/data{number}"
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    answer = await o.client.ask_node(node, request)
    o.workload.cluster.world.note(
        f"{o.name}: {topic}-{partition} of n{node} to be in {path}:"
        f" {[p.error_code for t in answer.results for p in t.partitions]}"
    )


async def prefer(o: Operator) -> None:
    """Every preferred replica that can shall lead."""
    await o.ask(lambda: ElectLeadersRequest(election_type=0, topic_partitions=None))


async def configure_topic(o: Operator) -> None:
    topic, _ = o.any_partition()
    key, values = o.rng.choice(
        [
            ("internal.segment.bytes", ["2000", "20000", None]),
            ("segment.ms", ["300", "3000", None]),
            ("max.message.bytes", ["900000", None]),
            ("retention.ms", ["604800000", None]),
            ("index.interval.bytes", ["100", None]),
            ("min.insync.replicas", ["1", "2", None]),
        ]
    )
    await o.admin.alter_configs(TOPIC, topic, {key: o.rng.choice(values)})


async def configure_brokers(o: Operator) -> None:
    who = o.rng.choice(["", *map(str, o.workload.cluster.topology.broker_ids)])
    key, values = o.rng.choice(
        [
            ("log.segment.delete.delay.ms", ["0", "1000", None]),
            ("log.retention.ms", ["604800000", None]),
            ("message.max.bytes", ["900000", None]),
            ("num.replica.fetchers", ["1", "2", None]),
        ]
    )
    if who and key == "num.replica.fetchers":
        who = ""
    await o.admin.alter_configs(BROKER, who, {key: o.rng.choice(values)})


async def delete_records(o: Operator) -> None:
    """Everything before a place that some consumer has seen."""
    topic, partition = o.any_partition()
    seen = o.workload.history.read[topic, partition]
    if not seen or not o.workload.history.promise(topic).may_be_cut:
        return
    offset = o.rng.randrange(0, max(seen) + 1)
    await o.client.cluster.refresh([topic], timeout_ms=REQUEST_TIMEOUT_MS)
    leader = o.client.cluster.leader(TopicPartition(topic, partition))
    if leader is None:
        return
    o.workload.history.on_cut(topic, partition, offset)
    one = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[one])], timeout_ms=3_000
    )
    answer = await o.client.ask_node(leader, request)
    o.workload.cluster.world.note(
        f"{o.name}: records of {topic}-{partition} before {offset}:"
        f" {[p.error_code for t in answer.topics for p in t.partitions]}"
    )


async def look(o: Operator) -> None:
    """Look at what tools ask for."""
    await o.admin.describe_cluster()
    await o.admin.describe_quorum()
    await o.admin.list_groups()


async def remake_topic(o: Operator) -> None:
    """A topic with records goes, and another one with its name is there at once."""
    o.made += 1
    name = f"{o.name}-again-{o.made}"
    configs = {"internal.segment.bytes": "300", "retention.bytes": "600"}
    topic = NewTopic(name, 1, o.workload.replication, configs)
    for count in (o.rng.randrange(10, 40), o.rng.randrange(0, 3)):
        (outcome,) = await o.admin.create_topics([topic], timeout_ms=REQUEST_TIMEOUT_MS)
        if outcome.error is not None and outcome.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome.error
        settings = ProducerSettings(
            idempotent=False, linger_ms=0.0, delivery_timeout_ms=REQUEST_TIMEOUT_MS
        )
        producer = Producer(o.client, settings)
        for number in range(count):
            producer.send(ProducerRecord(name, b"%d" % number, None, 0))
            await o.client.tasks.sleep(o.rng.uniform(1, 40))
        await o.client.tasks.sleep(o.rng.uniform(10, 1500))
        if count >= 10:
            await o.admin.delete_topics([name], timeout_ms=REQUEST_TIMEOUT_MS)
    o.temporary.append(name)


async def tend_offsets(o: Operator) -> None:
    """The groups' own topic has small segments and is compacted often, and its replicas move as well."""
    configs: dict[str, str | None] = {
        "internal.segment.bytes": o.rng.choice(["2000", "8000"]),
        "min.cleanable.dirty.ratio": o.rng.choice(["0.01", "0.5"]),
    }
    await o.admin.alter_configs(TOPIC, OFFSETS_TOPIC, configs)
    await try_to_grow(o, OFFSETS_TOPIC)
    await try_to_grow(o, TRANSACTIONS_TOPIC)
    if o.rng.random() < 0.5:
        brokers = list(o.workload.cluster.topology.broker_ids)
        o.rng.shuffle(brokers)
        count = int(o.workload.cluster.topology.settings.get("offsets.topic.num.partitions", "1"))
        partition = o.rng.randrange(count)
        await move_replicas(o, OFFSETS_TOPIC, partition, brokers[: o.workload.replication])


async def try_to_grow(o: Operator, topic: str) -> None:
    """A topic of coordinators keeps its number of partitions: by it, names find their state."""
    try:
        await o.admin.create_partitions(topic, COORDINATORS_TOO_MANY, timeout_ms=REQUEST_TIMEOUT_MS)
    except KafkaError as error:
        if error.code not in (
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ):
            raise
    else:
        raise Violation(f"{topic} has grown: what its coordinators know is lost to the names")


HABITS: Mapping[str, Callable[[Operator], Awaitable[None]]] = {
    "creates topics": create_topic,
    "deletes topics": delete_topic,
    "grows topics": grow_topic,
    "moves replicas": reassign,
    "changes directories": change_directory,
    "prefers leaders": prefer,
    "configures topics": configure_topic,
    "configures brokers": configure_brokers,
    "deletes records": delete_records,
    "looks": look,
    "remakes topics": remake_topic,
    "tends offsets": tend_offsets,
    **ADMINISTRATION,
    **GROUPS,
    **READ,
    **SETTINGS,
}
