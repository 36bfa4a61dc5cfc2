"""What our share consumer promises, on simulated nodes: every record is acknowledged, or comes again."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas.client.consumers.share_consumer import (
    EXPLICIT,
    IMPLICIT,
    ShareConsumer,
    ShareConsumerSettings,
)
from barnabas.client.consumers.share_requests import Acknowledged
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.consumers.share_session import ShareFetchSettings
from barnabas.client.records import DeliveredRecord
from barnabas.metadata.image.image import GROUP
from barnabas.record.builder import build_batch
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.world import Cluster

pytestmark = pytest.mark.slow
LOCK_MS = 1_000
HOUR_MS = 3_600_000
SETTINGS: dict[str, Any] = {
    "share_coordinator_state_topic_num_partitions": "2",
    "share_coordinator_state_topic_replication_factor": "3",
    "offsets_topic_num_partitions": "2",
    "offsets_topic_replication_factor": "3",
    "group_share_record_lock_duration_ms": str(LOCK_MS),
    "group_share_min_record_lock_duration_ms": str(LOCK_MS),
    "group_share_heartbeat_interval_ms": "500",
    "group_share_min_heartbeat_interval_ms": "500",
}


class Shares:
    """A cluster with one topic, and members of the share group ``g``."""

    def __init__(self, partitions: int = 1, nodes: int = 3) -> None:
        self.cluster = Cluster(nodes, **SETTINGS)
        self.cluster.create_topic("t", partitions, nodes)
        self.told: list[Acknowledged] = []
        self.made = 0

    def join(self, mode: str = EXPLICIT, *, begins: bool = True, **fetch: Any) -> ShareConsumer:
        """A member; where it `begins` the group, its partitions have starts when this returns."""
        self.made += 1
        client = self.cluster.sim.client(f"c{self.made}")
        settings = ShareConsumerSettings(mode, ShareFetchSettings(**fetch))
        consumer = ShareConsumer(client, "g", settings, on_outcome=self.told.append)
        consumer.subscribe(["t"])
        self.cluster.until(lambda: consumer.assignment)
        if begins:
            consumer.poll()
            self.cluster.run(2_000)
        return consumer

    def write(self, *values: bytes, index: int = 0) -> None:
        """One batch for each value."""
        for value in values:
            assert not self.cluster.produce([value], index=index).error_code

    def take(self, consumer: ShareConsumer, count: int, most: int = 500) -> list[DeliveredRecord]:
        for _ in range(3_000):
            taken = consumer.poll(most)
            if len(taken) >= count:
                return taken
            assert not taken, "fewer than expected"
            self.cluster.run(10)
        raise AssertionError("no record comes")

    def finish(self, consumer: ShareConsumer, coroutine: Coroutine[Any, Any, Any]) -> Any:
        task = consumer._client.tasks.start(coroutine)
        self.cluster.until(lambda: task.done, 90_000)
        return task.result()


@pytest.fixture
def shares() -> Shares:
    return Shares()


def values(records: list[DeliveredRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_implicit_mode_accepts_what_was_taken_before(shares: Shares) -> None:
    consumer = shares.join(IMPLICIT)
    shares.write(b"a", b"b")
    got = shares.take(consumer, 1)
    outcome = shares.finish(consumer, consumer.commit())
    assert outcome == {TopicPartition("t", 0): None}
    while len(got) < 2:
        got += shares.take(consumer, 1)
        shares.finish(consumer, consumer.commit())
    assert values(got) == [b"a", b"b"] and {r.deliveries for r in got} == {1}
    kinds = {offset: kind for answer in shares.told for offset, kind in answer.kinds.items()}
    assert kinds == {0: Acknowledge.ACCEPT, 1: Acknowledge.ACCEPT}
    with pytest.raises(ValueError, match="implicit"):
        consumer.acknowledge(got[0])


def test_released_records_come_again_and_rejected_ones_do_not(
    shares: Shares,
) -> None:
    consumer = shares.join(strict=True)
    shares.write(b"bad", b"again")
    first = shares.take(consumer, 1, most=1)
    consumer.acknowledge(first[0], Acknowledge.REJECT)
    second = shares.take(consumer, 1, most=1)
    consumer.acknowledge(second[0], Acknowledge.RELEASE)
    third = shares.take(consumer, 1)
    assert values([*first, *second, *third]) == [b"bad", b"again", b"again"]
    assert [record.deliveries for record in (*first, *second, *third)] == [1, 1, 2]
    consumer.acknowledge(third[0])
    assert shares.finish(consumer, consumer.commit()) == {TopicPartition("t", 0): None}
    shares.cluster.run(3 * LOCK_MS)
    assert consumer.poll() == []


def test_explicit_mode_asks_for_a_word_on_each_record(shares: Shares) -> None:
    consumer = shares.join()
    shares.write(b"a")
    [record] = shares.take(consumer, 1)
    with pytest.raises(ValueError, match="acknowledged"):
        consumer.poll()
    consumer.acknowledge(record)
    with pytest.raises(ValueError, match="not in hand"):
        consumer.acknowledge(record)
    consumer.poll()


def test_a_renewed_record_stays_with_its_member(shares: Shares) -> None:
    consumer, other = shares.join(), shares.join(begins=False)
    shares.write(b"slow")
    [record] = shares.take(consumer, 1)
    for _ in range(4):
        consumer.acknowledge(record, Acknowledge.RENEW)
        assert shares.finish(consumer, consumer.commit()) == {TopicPartition("t", 0): None}
        consumer.poll()
        other.poll()
        shares.cluster.run(LOCK_MS / 2)
    assert other.poll() == []
    consumer.acknowledge(record)
    assert shares.finish(consumer, consumer.commit()) == {TopicPartition("t", 0): None}


@pytest.mark.parametrize(
    ("reset", "first"),
    [("earliest", b"old"), ("by_duration:PT1H", b"new"), ("by_duration:PT0S", None)],
)
def test_a_group_begins_where_its_configuration_says(
    shares: Shares, reset: str, first: bytes | None
) -> None:
    ages_ms = {b"old": 2 * HOUR_MS, b"new": HOUR_MS // 2}
    for value, age_ms in ages_ms.items():
        stamp = shares.cluster.client.clock.wall_ms() - age_ms
        batch = build_batch([(b"k", value)], timestamp_ms=stamp)
        assert not shares.cluster.produce([], batch=batch).error_code
    change = AlterableConfig(name="share.auto.offset.reset", value=reset)
    group = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[change])
    answer = shares.cluster.ask(IncrementalAlterConfigsRequest(resources=[group]))
    assert not answer.responses[0].error_code
    consumer = shares.join()
    shares.write(b"last")
    taken = shares.take(consumer, 1, most=1)
    assert values(taken[:1]) == [first or b"last"]


def test_a_lock_that_ended_fails_the_acknowledgement(shares: Shares) -> None:
    consumer, other = shares.join(), shares.join(begins=False)
    shares.write(b"slow")
    [record] = shares.take(consumer, 1)
    [same] = shares.take(other, 1)
    assert (same.offset, same.deliveries) == (record.offset, 2)
    consumer.acknowledge(record)
    [error] = shares.finish(consumer, consumer.commit()).values()
    assert error.code == ErrorCode.INVALID_RECORD_STATE
    other.acknowledge(same)
    assert shares.finish(other, other.commit()) == {TopicPartition("t", 0): None}


def test_records_that_wait_too_long_in_the_buffer_are_not_handed_out(shares: Shares) -> None:
    consumer = shares.join()
    consumer.poll()
    shares.write(b"a")
    shares.cluster.run(1_000)
    assert consumer._runs, "it was fetched, and not taken"
    shares.cluster.run(LOCK_MS)
    assert consumer.poll() == []
    [record] = shares.take(consumer, 1)
    assert record.deliveries > 1


def test_close_gives_what_is_in_hand_to_another_member_at_once(shares: Shares) -> None:
    consumer, other = shares.join(strict=True), shares.join(begins=False)
    shares.write(b"taken", b"buffered", b"free")
    done = shares.take(consumer, 1, most=1)
    consumer.acknowledge(done[0])
    held = shares.take(consumer, 1, most=1)
    before = shares.cluster.world.now_ms
    shares.finish(consumer, consumer.close())
    got: list[DeliveredRecord] = []
    while len(got) < 2:
        taken = shares.take(other, 1)
        for record in taken:
            other.acknowledge(record)
        got += taken
    assert values(held) == [b"buffered"] and sorted(map(str, values(got))) == [
        "b'buffered'",
        "b'free'",
    ]
    assert shares.cluster.world.now_ms - before < LOCK_MS


def test_records_follow_when_their_leader_dies(shares: Shares) -> None:
    consumer = shares.join(strict=True)
    shares.write(b"a", b"b")
    [first] = shares.take(consumer, 1, most=1)
    consumer.acknowledge(first)
    assert shares.finish(consumer, consumer.commit()) == {TopicPartition("t", 0): None}
    [lost] = shares.take(consumer, 1, most=1)
    shares.cluster.sim.nodes[shares.cluster.leader("t")].kill()
    consumer.acknowledge(lost)
    [error] = shares.finish(consumer, consumer.commit()).values()
    assert error is not None, "the next leader does not know of that delivery"
    [again] = shares.take(consumer, 1)
    assert again.value == b"b"
    consumer.acknowledge(again)
    assert shares.finish(consumer, consumer.commit()) == {TopicPartition("t", 0): None}
    assert consumer.failure is None


def test_a_member_that_was_fenced_joins_again(shares: Shares) -> None:
    consumer = shares.join()
    member = consumer._member
    assert member is not None
    member._epoch += 7
    shares.write(b"a")
    shares.cluster.run(2_000)
    [record] = shares.take(consumer, 1)
    consumer.acknowledge(record)
    assert shares.finish(consumer, consumer.commit()) == {TopicPartition("t", 0): None}


def test_a_broken_connection_takes_its_records_along(shares: Shares) -> None:
    consumer = shares.join()
    shares.write(b"a")
    [record] = shares.take(consumer, 1)
    [session] = consumer._requests.sessions.values()
    for (_, purpose), connection in list(consumer._client.channels._connections.items()):
        if purpose == consumer._purpose:
            connection.close()
    shares.cluster.run(100)
    consumer.acknowledge(record)
    [error] = shares.finish(consumer, consumer.commit()).values()
    assert error is not None and session.is_over
    [again] = shares.take(consumer, 1)
    assert (again.offset, again.deliveries) == (0, 2)


def test_members_share_one_partition(shares: Shares) -> None:
    consumers = [shares.join(IMPLICIT, begins=not at, strict=True) for at in range(3)]
    shares.write(*(b"%d" % number for number in range(30)))
    taken: list[list[DeliveredRecord]] = [[] for _ in consumers]

    while sum(map(len, taken)) < 30:
        for got, consumer in zip(taken, consumers, strict=True):
            got += consumer.poll(2)
        shares.cluster.run(10)
    assert sorted(r.offset for got in taken for r in got) == list(range(30))


def test_a_cluster_without_share_groups_is_an_error_at_once() -> None:
    cluster = Cluster(1, level=26)  # 4.0: share groups are not there yet
    cluster.create_topic("t")
    client = cluster.sim.client("c")
    consumer = ShareConsumer(client, "g")
    consumer.subscribe(["t"])
    cluster.until(lambda: consumer.failure is not None)
    assert consumer.failure is not None
    task = client.tasks.start(consumer.close())
    cluster.until(lambda: task.done)
