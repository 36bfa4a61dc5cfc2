"""The rarer work of operators: throttles, cordons, feature levels, brokers that are given up, dry runs.

What would stand in the way of a cluster that shall become whole (a throttle, a cordon) its operator takes
back when the seed ends, as one does in life.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client.admin import BROKER, TOPIC
from barnabas.client.client import raise_for
from barnabas.client.feature_levels import describe_features
from barnabas.client.offsets import list_offsets
from barnabas.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    accepted,
    supported,
)
from barnabas.sim.history import Violation
from barnabas.sim.world.world import START_WALL_MS
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError, code_of
from barnabas.wire.messages import alter_configs_request as legacy
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from barnabas.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

if TYPE_CHECKING:
    from barnabas.sim.workload.operator import Operator

GROUP = 32
REQUEST_TIMEOUT_MS = 5_000.0
MAX_TIMESTAMP = -3
UPGRADE, DOWNGRADE = 1, 2
NOT_OLD = 21
"""Clusters that begin at this metadata.version or above jump between it and the newest."""
RATES = {
    side: f"{side}.replication.throttled.rate" for side in ("leader", "follower")
}  # fmt: skip
REPLICAS = {side: f"{side}.replication.throttled.replicas" for side in RATES}
CORDONED = "cordoned.log.dirs"
APPEND, SUBTRACT = 2, 3
STRICT_TOPIC = "events"
"""Whose promises rest on no setting of its own."""


async def move_replicas(
    o: Operator, topic: str, partition: int, replicas: list[int] | None
) -> None:
    """A reassignment, or its end where there are no `replicas`."""
    one = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[one])]
    )
    answer = await o.ask(lambda: request)
    o.workload.cluster.world.note(
        f"{o.name}: replicas of {topic}-{partition} to be {replicas}:"
        f" {answer.error_code} {[p.error_code for t in answer.responses for p in t.partitions]}"
    )


async def maybe_cancel(o: Operator, topic: str, partition: int) -> None:
    """Now and then the move that has just begun is looked at and called off."""
    minds = o.workload.cluster.world.rng(f"{o.name} minds {o.workload.cluster.world.now_ms}")
    if minds.random() < 0.3:
        await o.client.tasks.sleep(minds.choice([0.5, 5.0, 50.0, 500.0]) * minds.random())
        await o.ask(lambda: ListPartitionReassignmentsRequest(topics=None))
        await move_replicas(o, topic, partition, None)


async def throttle(o: Operator) -> None:
    """A throttle for all replicas of a topic, or of a partition, under which that one mostly moves; the
    next time it is lifted."""
    if o.to_undo.get("throttle") is not None:
        await o.undo("throttle")
        return
    topic, partition = o.any_partition()
    brokers = o.workload.cluster.topology.broker_ids
    listed = o.rng.choice(["*", ",".join(f"{partition}:{broker}" for broker in brokers)])
    rate = o.rng.choice(["0", "100", "1000"])
    sides = o.rng.choice([["leader"], ["follower"], ["leader", "follower"]])

    async def lift() -> None:
        await o.admin.alter_configs(TOPIC, topic, {REPLICAS[side]: None for side in sides})
        for broker in brokers:
            await o.admin.alter_configs(BROKER, str(broker), {RATES[s]: None for s in sides})

    o.to_undo["throttle"] = lift
    for broker in brokers:
        await o.admin.alter_configs(BROKER, str(broker), {RATES[side]: rate for side in sides})
    await o.admin.alter_configs(TOPIC, topic, {REPLICAS[side]: listed for side in sides})
    if o.rng.random() < 0.7:
        others = list(brokers)
        o.rng.shuffle(others)
        await move_replicas(o, topic, partition, others[: o.workload.replication])
        await maybe_cancel(o, topic, partition)


async def cordon(o: Operator) -> None:
    """One broker takes no new replicas, or one of its directories does; the next time it does again."""
    if o.to_undo.get("cordon") is not None:
        await o.undo("cordon")
        return
    topology = o.workload.cluster.topology
    who = str(o.rng.choice(list(topology.broker_ids)))

    async def release() -> None:
        await o.admin.alter_configs(BROKER, who, {CORDONED: None})

    o.to_undo["cordon"] = release
    where = o.rng.choice(["*", "*", "/data"])
    await o.admin.alter_configs(BROKER, who, {CORDONED: where})


async def set_level(o: Operator, name: str, level: int, kind: int) -> None:
    """Raises `KafkaError` where it is refused."""
    o.workload.history.levels_asked.add((name, level))
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    answer = await o.ask(lambda: UpdateFeaturesRequest(feature_updates=[update]))
    if answer.error_code:
        raise KafkaError(code_of(answer.error_code), answer.error_message or "")


async def change_levels(o: Operator) -> None:
    """Some level of some feature; what nodes do not support or would lose is refused."""
    name = o.rng.choice(
        [METADATA_VERSION, METADATA_VERSION, "group.version", "share.version", "streams.version"]
    )
    low, high = accepted()[name]
    if name == METADATA_VERSION and o.workload.cluster.topology.first_level < NOT_OLD:
        await climb(o)
        return
    level = o.rng.randrange(max(low, NOT_OLD) if name == METADATA_VERSION else low, high + 1)
    await set_level(o, name, level, o.rng.choice([UPGRADE, UPGRADE, DOWNGRADE]))


async def change_transactions(o: Operator) -> None:
    """The two generations of transactions, up and down while some are open (KIP-890)."""
    low, high = supported()[TRANSACTION_VERSION]
    level = o.rng.randrange(low, high + 1)
    await set_level(o, TRANSACTION_VERSION, level, o.rng.choice([UPGRADE, DOWNGRADE]))


async def climb(o: Operator) -> None:
    """metadata.version a few steps up, so that the cluster lives at levels between; now and then all the way,
    or down, which is mostly refused."""
    known = (await describe_features(o.client)).features.get(METADATA_VERSION)
    if known is None:  # old clients do not get it
        return
    low, high = supported()[METADATA_VERSION]
    kind = UPGRADE if o.levels.random() < 0.75 else DOWNGRADE
    steps = o.levels.choice([1, 1, 1, 1, 2, 2, 3, 5, high])
    level = known.level + steps if kind == UPGRADE else known.level - steps
    await set_level(o, METADATA_VERSION, min(max(level, low), high), kind)


async def elr_on(o: Operator) -> None:
    await set_level(o, ELR_VERSION, 1, UPGRADE)


async def elr_off(o: Operator) -> None:
    await set_level(o, ELR_VERSION, 0, DOWNGRADE)


async def make_dynamic(o: Operator) -> None:
    """A static quorum has its voters in the log from then on, and they may change."""
    await set_level(o, KRAFT_VERSION, 1, UPGRADE)


async def give_up_broker(o: Operator) -> None:
    """One that is fenced, mostly, is unregistered; should it come back, it registers as a new one."""
    described = await o.admin.describe_cluster()
    brokers = [b.node_id for b in described.brokers if b.fenced]
    if not brokers:
        if o.rng.random() < 0.4:
            return
        brokers = [b.node_id for b in described.brokers]
    if not brokers:  # the only one was given up a moment ago
        return
    who = o.rng.choice(brokers)
    answer = await o.ask(lambda: UnregisterBrokerRequest(broker_id=who))
    o.workload.cluster.world.note(f"{o.name}: broker {who} is given up: {answer.error_code}")


async def take_producer_id(o: Operator) -> None:
    """An id that no other client may get."""
    answer = await o.ask(lambda: InitProducerIdRequest(transactional_id=None))
    if answer.error_code:
        raise KafkaError(code_of(answer.error_code))
    o.workload.history.on_producer_id(answer.producer_id)


async def elect_uncleanly(o: Operator) -> None:
    """Elect any replica where nothing is promised."""
    if "unclean" in o.workload.topics:
        indexes = list(range(o.workload.topics["unclean"]))
        wanted = [TopicPartitions(topic="unclean", partitions=indexes)]
        await o.ask(lambda: ElectLeadersRequest(election_type=1, topic_partitions=wanted))


async def try_out(o: Operator) -> None:
    """A topic that is only to be validated."""
    o.made += 1
    name = f"{o.name}-tried-{o.made}"
    o.workload.history.tried.add(name)
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=o.workload.replication)
    answer = await o.ask(lambda: CreateTopicsRequest(topics=[topic], validate_only=True))
    (result,) = answer.topics
    if result.error_code:
        raise KafkaError(code_of(result.error_code), result.error_message or "")


async def configure_groups(o: Operator) -> None:
    value = o.rng.choice(["50000", None])
    await o.admin.alter_configs(GROUP, "readers0", {"consumer.session.timeout.ms": value})


async def read_settings(o: Operator) -> None:
    """Read what tools ask for, and every configuration there is."""
    topic, _ = o.any_partition()
    await o.admin.describe_configs(TOPIC, topic)
    await o.admin.describe_configs(BROKER, "")
    await o.ask(ListConfigResourcesRequest)
    await o.ask(lambda: ListPartitionReassignmentsRequest(topics=None))


async def look_up_times(o: Operator) -> None:
    """Look up where records of some time begin. A later time never begins at an earlier offset (but for
    logs that are compacted: each replica's at its own time)."""
    topic, partition = o.any_partition()
    place = TopicPartition(topic, partition)
    begun, now = START_WALL_MS, START_WALL_MS + int(o.workload.cluster.world.now_ms)
    times = sorted(o.rng.randrange(begun - 100, now + 100) for _ in range(3))
    found = [
        await list_offsets(o.client, {place: at}, timeout_ms=REQUEST_TIMEOUT_MS) for at in times
    ]
    await list_offsets(o.client, {place: MAX_TIMESTAMP}, timeout_ms=REQUEST_TIMEOUT_MS)
    promise, before = o.workload.history.promise(topic), -1
    for at, answer in zip(times, found, strict=True):
        offset, timestamp_ms, _ = answer[place]
        if offset < 0:
            continue
        where = f"{place} from {at} ms on: offset {offset} of {timestamp_ms} ms"
        if timestamp_ms < at:
            raise Violation(where)
        if offset < before and promise.keeps and not promise.compacts:
            raise Violation(f"{where}, and {before} for an earlier time")
        before = offset


ADMINISTRATION: Mapping[str, Callable[[Operator], Awaitable[None]]] = {
    "throttles replicas": throttle,
    "cordons": cordon,
    "changes levels": change_levels,
    "changes transactions": change_transactions,
    "switches ELR on": elr_on,
    "switches ELR off": elr_off,
    "makes the quorum dynamic": make_dynamic,
    "gives up brokers": give_up_broker,
    "takes producer ids": take_producer_id,
    "elects uncleanly": elect_uncleanly,
    "tries topics": try_out,
    "configures groups": configure_groups,
    "reads settings": read_settings,
    "looks up times": look_up_times,
}
NOT_WHERE_DATA_IS_LOST = ("switches ELR off", "gives up brokers")
"""Without ELR the last member of an ISR leads again whatever it lost; and an operator that gives a broker up
gives up the broker's copies. Both are fair only where no fault takes another copy."""


async def change_lists(o: Operator) -> None:
    """Adds replicas to the list of throttled ones, and removes them; it matters where a rate is set."""
    topic, partition = o.any_partition()
    broker = o.rng.choice(list(o.workload.cluster.topology.broker_ids))
    side, operation = o.rng.choice(["leader", "follower"]), o.rng.choice([APPEND, SUBTRACT])
    config = AlterableConfig(
        name=f"{side}.replication.throttled.replicas",
        config_operation=operation,
        value=f"{partition}:{broker}",
    )
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
    await o.client.ask_any(lambda: IncrementalAlterConfigsRequest(resources=[resource]), _check)


async def replace_settings(o: Operator) -> None:
    """Replace the settings: those that are not named go."""
    kind, name, key, values = o.rng.choice(
        [
            (TOPIC, STRICT_TOPIC, "max.message.bytes", ["900000", None]),
            (BROKER, "", "message.max.bytes", ["900000", None]),
        ]
    )
    value = o.rng.choice(values)
    configs = [] if value is None else [legacy.AlterableConfig(name=key, value=value)]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    await o.client.ask_any(lambda: legacy.AlterConfigsRequest(resources=[resource]), _check)


def _check(response: Any) -> None:
    for result in response.responses:
        raise_for(result.error_code, result.error_message)


SETTINGS: Mapping[str, Callable[[Operator], Awaitable[None]]] = {
    "changes lists": change_lists,
    "replaces settings": replace_settings,
}
