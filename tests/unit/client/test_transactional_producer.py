"""Our own transactional producer against simulated nodes, in both generations."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from barnabas.client.client import Client
from barnabas.client.consumers.fetch_requests import FetchSettings, fetch
from barnabas.client.feature_levels import SAFE_DOWNGRADE, UPGRADE, update_features
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import CommittedOffset, GroupIdentity, committed_offsets, list_offsets
from barnabas.client.producers.transactional_producer import TransactionalProducer
from barnabas.client.records import ProducerRecord
from barnabas.metadata.features import TRANSACTION_VERSION
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError
from tests.unit.broker.world import Cluster

T = TypeVar("T")


class World:
    """One cluster, one client."""

    def __init__(self, nodes: int = 1) -> None:
        self.cluster = Cluster(
            nodes, offsets_topic_num_partitions="1", transaction_state_log_num_partitions="2"
        )
        self.client: Client = self.cluster.sim.client("app")

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self.client.tasks.start(coroutine)
        self.cluster.until(lambda: task.done, limit_ms=120_000)
        return task.result()

    def producer(self, name: str = "app") -> TransactionalProducer:
        producer = TransactionalProducer(self.client, name)
        self.run(producer.init())
        return producer

    def level(self, level: int) -> None:
        kind = UPGRADE if level == 2 else SAFE_DOWNGRADE
        self.run(update_features(self.client, {TRANSACTION_VERSION: level}, kind))

    def committed(self, topic: str) -> list[bytes]:
        tp = TopicPartition(topic, 0)

        async def read() -> list[bytes]:
            found, offset = [], 0
            end = (await list_offsets(self.client, {tp: -1}, read_committed=True))[tp].offset
            while offset < end:
                run = (await fetch(self.client, {tp: offset}, FetchSettings(read_committed=True)))[
                    tp
                ]
                found += [bytes(r.value or b"") for r in run.records(offset)]
                offset = run.next_offset
            return found

        return self.run(read())

    def write(self, producer: TransactionalProducer, topic: str, *values: bytes) -> list[Any]:
        return [producer.send(ProducerRecord(topic, value, partition=0)) for value in values]


@pytest.fixture(scope="module", params=[0, 1, 2])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = World()
    if request.param < 2:
        world.level(request.param)
    yield world


def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(world: World) -> None:
    world.cluster.create_topic("t")
    producer = world.producer()
    for number in range(6):
        producer.begin()
        world.write(producer, "t", b"%d" % number, b"%d" % number)
        if number % 2:
            world.run(producer._producer.flush())  # what is aborted is in the log
            world.run(producer.abort())
        else:
            world.run(producer.commit())
    assert world.committed("t") == [b"0", b"0", b"2", b"2", b"4", b"4"]


def test_a_transaction_without_anything_ends_at_once(world: World) -> None:
    producer = world.producer("empty")
    producer.begin()
    world.run(producer.commit())
    producer.begin()
    world.run(producer.abort())


def test_offsets_go_with_the_transaction(world: World) -> None:
    world.cluster.create_topic("read")
    producer, tp = world.producer("offsets"), TopicPartition("read", 0)
    who = GroupIdentity("g")
    for offset, commits in ((3, True), (9, False)):
        producer.begin()
        world.run(producer.send_offsets({tp: CommittedOffset(offset)}, who))
        world.run(producer.commit() if commits else producer.abort())
    assert world.run(committed_offsets(world.client, "g"))[tp].offset == 3


def test_a_second_producer_fences_the_first(world: World) -> None:
    world.cluster.create_topic("fenced")
    first = world.producer("fenced")
    first.begin()
    world.write(first, "fenced", b"zombie")
    world.run(first._producer.flush())
    second = world.producer("fenced")
    second.begin()
    world.write(second, "fenced", b"new")
    world.run(second.commit())
    with pytest.raises(KafkaError):
        world.run(first.commit())
    with pytest.raises(KafkaError):
        first.begin()
    assert world.committed("fenced") == [b"new"]


def test_a_failed_batch_spoils_its_transaction_only(world: World) -> None:
    world.cluster.create_topic("spoilt", max_message_bytes="500")
    producer = world.producer("spoilt")
    producer.begin()
    [good, bad] = world.write(producer, "spoilt", b"a", b"x" * 900)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        world.run(producer.commit())
    assert bad.done
    refused = producer.send(ProducerRecord("spoilt", b"c", partition=0))
    assert refused.done
    world.run(producer.abort())
    producer.begin()
    world.write(producer, "spoilt", b"b")
    world.run(producer.commit())
    assert good.done
    assert world.committed("spoilt") == [b"b"]


def test_nothing_is_written_outside_of_a_transaction(world: World) -> None:
    world.cluster.create_topic("outside")
    producer = world.producer("outside")
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        producer.send(ProducerRecord("outside", b"a")).result()
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        world.run(producer.commit())
    never = TransactionalProducer(world.client, "never")
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        never.begin()


def test_a_producer_lives_through_a_change_of_the_level() -> None:
    world = World()
    world.cluster.create_topic("t")
    producer = world.producer()
    for number, level in enumerate((2, 1, 1, 2, 0, 2)):
        if world.cluster.broker().image.features.get(TRANSACTION_VERSION) != level:
            world.level(level)
        producer.begin()
        world.write(producer, "t", b"%d" % number)
        world.run(producer.commit())
    assert world.committed("t") == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_commit_is_asked_for_again_where_its_answer_is_lost() -> None:
    world = World(3)
    world.cluster.create_topic("t", 1, 3)
    producer = world.producer()
    producer.begin()
    world.write(producer, "t", b"a")
    world.run(producer._producer.flush())
    node = world.cluster.broker(1).transactions.coordinator_of("app")
    assert node is not None
    committing = world.client.tasks.start(producer.commit())
    world.cluster.run(2)
    world.cluster.sim.nodes[node].kill()
    world.cluster.until(lambda: committing.done, limit_ms=120_000)
    try:
        committing.result()
    except ChannelError:
        world.run(producer.commit())
    assert world.committed("t") == [b"a"]


def test_a_producer_has_another_epoch_when_the_level_rises_to_2() -> None:
    """The marker of the transaction before has the former epoch, and nothing waits for it any more."""
    world = World()
    world.level(1)
    world.cluster.create_topic("t")
    producer = world.producer("rises")
    producer.begin()
    world.write(producer, "t", b"aborted")
    world.run(producer._producer.flush())
    world.level(2)
    before = producer._identity.producer_epoch
    world.run(producer.abort())
    assert producer._identity.producer_epoch > before
    producer.begin()
    world.write(producer, "t", b"committed")
    world.run(producer.commit())
    assert world.committed("t") == [b"committed"]
