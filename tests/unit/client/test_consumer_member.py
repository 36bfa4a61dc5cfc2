"""Our consumer in groups whose coordinator assigns (KIP-848), on simulated nodes."""

from __future__ import annotations

import pytest

from barnabas.client.client import Client
from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.consumers.group_member import (
    CLASSIC,
    CONSUMER,
    GroupMemberSettings,
    Subscription,
    TopicPattern,
)
from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode
from tests.unit.broker.world import Cluster

PARTITIONS = 4


class Group:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.made = 0
        self.given_up: list[list[int]] = []

    def join(
        self,
        protocol: str = CONSUMER,
        instance: str | None = None,
        to: Subscription = ("t",),
    ) -> Consumer:
        self.made += 1
        client: Client = self.cluster.sim.client(f"c{self.made}")
        settings = GroupMemberSettings(
            protocol=protocol, heartbeat_interval_ms=500.0, instance_id=instance
        )
        consumer = Consumer(
            client,
            "g",
            ConsumerSettings(auto_offset_reset="earliest", group=settings),
            on_revoked=lambda parts: self.given_up.append([tp.partition for tp in parts]),
        )
        consumer.subscribe(to)
        return consumer

    def until_held(self, *consumers: Consumer) -> None:
        """Together they have everything, in equal shares."""

        def shared() -> bool:
            held = [[tp.partition for tp in consumer.assignment] for consumer in consumers]
            sizes = sorted(map(len, held))
            everything = sorted(p for parts in held for p in parts)
            return everything == list(range(PARTITIONS)) and sizes[-1] - sizes[0] <= 1

        self.cluster.until(shared, 60_000)

    def close(self, consumer: Consumer) -> None:
        consumer._client.tasks.start(consumer.close())
        self.cluster.run(1_000)


@pytest.fixture
def group() -> Group:
    cluster = Cluster(3, offsets_topic_num_partitions="2", offsets_topic_replication_factor="3")
    cluster.create_topic("t", PARTITIONS, 3)
    return Group(cluster)


@pytest.mark.slow
def test_a_second_member_takes_half_and_the_first_keeps_the_rest(group: Group) -> None:
    first = group.join()
    group.until_held(first)
    kept = set(first.assignment)
    second = group.join()
    group.until_held(first, second)
    assert set(first.assignment) < kept
    assert [len(parts) for parts in group.given_up] == [2], "only what moves is given up"
    group.close(second)
    group.until_held(first)


@pytest.mark.slow
def test_members_of_both_protocols_share_one_group(group: Group) -> None:
    old = group.join(CLASSIC)
    group.until_held(old)
    new = group.join()
    group.until_held(old, new)
    group.close(new)
    group.until_held(old)


@pytest.mark.slow
def test_a_member_keeps_its_partitions_when_the_coordinator_dies(group: Group) -> None:
    consumer = group.join()
    group.until_held(consumer)
    [coordinator] = [
        node
        for node in group.cluster.ids
        for shard in group.cluster.broker(node).groups.shards.values()
        if isinstance(shard.machine.table.groups.get("g"), ConsumerGroup)
    ]
    group.cluster.sim.nodes[coordinator].kill()
    group.cluster.run(10_000)
    assert len(consumer.assignment) == PARTITIONS and not group.given_up
    assert consumer.failure is None


@pytest.mark.slow
def test_a_member_at_its_epoch_commits(group: Group) -> None:
    consumer = group.join()
    group.until_held(consumer)
    place = TopicPartition("t", 0)
    faults: list[Exception] = []

    async def commit() -> None:
        try:
            await consumer.commit({place: 7})
        except Exception as fault:  # noqa: BLE001 - the test says what it was
            faults.append(fault)

    consumer._client.tasks.start(commit())
    group.cluster.run(2_000)
    assert not faults
    read = [
        shard.machine.offsets.committed("g", ("t", 0))
        for node in group.cluster.ids
        for shard in group.cluster.broker(node).groups.shards.values()
    ]
    assert [known.offset for known in read if known is not None] == [7]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_a_pattern_subscribes_to_what_matches_now_and_later(group: Group, protocol: str) -> None:
    cluster = group.cluster
    cluster.create_topic("orders-eu", 2, 3)
    consumer = group.join(protocol, to=TopicPattern("orders-.*"))
    consumer._client.cluster.max_age_ms = 2_000.0

    def has(*topics: str) -> bool:
        return {tp.topic for tp in consumer.assignment} == {*topics}

    cluster.until(lambda: has("orders-eu"), 60_000)
    cluster.create_topic("orders-us", 2, 3)
    cluster.until(lambda: has("orders-eu", "orders-us"), 60_000)
    consumer.subscribe(["t"])
    cluster.until(lambda: has("t"), 60_000)
    consumer.subscribe(TopicPattern("orders-us|t"))
    cluster.until(lambda: has("orders-us", "t"), 60_000)


def test_a_pattern_that_is_no_expression_is_refused(group: Group) -> None:
    with pytest.raises(ValueError, match="no regular expression"):
        group.join(CLASSIC, to=TopicPattern("("))
    consumer = group.join(CONSUMER, to=TopicPattern("("))
    group.cluster.until(lambda: consumer.failure is not None, 10_000)
    assert consumer.failure is not None
    assert consumer.failure.code == ErrorCode.INVALID_REGULAR_EXPRESSION
