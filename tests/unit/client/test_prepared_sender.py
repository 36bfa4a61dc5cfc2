"""Batches that are encoded already: each is sent until its partition has it, or the partition ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.batch_sender import OutgoingBatch, SendOptions
from barnabas.client.producers.prepared_sender import PreparedSender
from barnabas.record.builder import build_batch
from barnabas.types import Buffer, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.unit.client.fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OPTIONS = SendOptions(request_timeout_ms=1_000.0)


class Prepared(OutgoingBatch):
    """One record with a sequence of its own."""

    def __init__(self, partition: TopicPartition, sequence: int) -> None:
        self.data = build_batch(
            [(None, b"v", (), 1)], timestamp_ms=0, producer_id=7, producer_epoch=0,
            base_sequence=sequence,
        )  # fmt: skip
        self.loads = 0
        super().__init__(partition, len(self.data))

    def encoded(self) -> Buffer:
        self.loads += 1
        return memoryview(self.data)


class Unreadable(Prepared):
    def encoded(self) -> Buffer:
        raise OSError("the file is gone")


def raises(batch: Prepared, error: Exception) -> None:
    raise error


def delivered(
    cluster: FakeCluster,
    batches: Sequence[Prepared],
    on_failed: Any = raises,
    client: Client | None = None,
    patience_ms: float = 10_000.0,
) -> TaskOutcome[None]:
    """What became of the delivery, after as much time as it takes."""
    client = client or cluster.client()
    sender = PreparedSender[Prepared](client, OPTIONS, on_failed, patience_ms=patience_ms)
    ended: list[TaskOutcome[None]] = []
    client.tasks.start(sender.deliver(iter(batches)), ended.append)
    while not ended and cluster.world.now < 100_000:
        cluster.world.run(cluster.world.now + 10)
    return ended[0]


def ends(cluster: FakeCluster) -> list[int]:
    return [partition.end for partition in cluster.partitions.values()]


def test_batches_of_many_partitions_go_in_order_and_each_once() -> None:
    cluster = FakeCluster()
    cluster.mute = 1
    cluster.faults.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    batches = [Prepared(at, number) for number in range(5) for at in (T0, T1)]
    delivered(cluster, batches).result()
    assert ends(cluster) == [5, 5]


def test_nothing_to_send_is_done_at_once() -> None:
    cluster = FakeCluster()
    delivered(cluster, []).result()
    assert cluster.produced == 0


def test_a_partition_that_an_answer_leaves_out_is_sent_again_after_a_while() -> None:
    """It was sent again at once, as often as the broker answered."""
    cluster = FakeCluster(nodes=1)
    cluster.left_out.extend([1] * 40)
    began_ms = cluster.world.now
    delivered(cluster, [Prepared(at, number) for number in range(2) for at in (T0, T1)]).result()
    assert ends(cluster) == [2, 2]
    assert cluster.produced <= (cluster.world.now - began_ms) / OPTIONS.retry_backoff_ms + 3


@pytest.mark.parametrize("kind", ["authentication", "unsupported"])
def test_a_failure_that_stays_is_not_retried(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(nodes=1)
    client = cluster.client()
    asked = 0

    async def refuse(*_: Any, **__: Any) -> Any:
        nonlocal asked
        asked += 1
        raise ChannelError(kind, "refused for good")

    monkeypatch.setattr(client, "ask_node", refuse)
    with pytest.raises(ChannelError, match="for good"):
        delivered(cluster, [Prepared(T0, 0)], client=client).result()
    assert asked == 1


def test_a_partition_that_fails_drops_its_own_batches_only() -> None:
    cluster = FakeCluster(nodes=1)
    failed: list[tuple[int, Exception]] = []

    def keep(batch: Prepared, error: Exception) -> None:
        failed.append((batch.partition.partition, error))

    first = [Prepared(T0, 3), Prepared(T0, 4)]
    delivered(cluster, [*first, *(Prepared(T1, number) for number in range(3))], keep).result()
    assert ends(cluster) == [0, 3]
    ((where, error),) = failed
    assert where == 0
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert first[1].loads == 0


def test_a_failure_that_ends_all_leaves_nothing_to_send() -> None:
    cluster = FakeCluster(nodes=1)
    cluster.faults.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    batches = [Prepared(at, number) for number in range(3) for at in (T0, T1)]
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        delivered(cluster, batches).result()
    at_end = cluster.produced
    cluster.world.run(cluster.world.now + 5_000)
    assert cluster.produced == at_end


def test_a_batch_that_cannot_be_loaded_fails_by_its_own_error() -> None:
    cluster = FakeCluster(nodes=1)
    with pytest.raises(OSError, match="the file is gone"):
        delivered(cluster, [Unreadable(T0, 0), Prepared(T1, 0)]).result()


def test_a_partition_without_a_leader_is_given_up_with_the_reason() -> None:
    cluster = FakeCluster()
    cluster.partitions[0].leader = -1
    with pytest.raises(KafkaError, match="no acknowledgement for t-0 in time: it has no leader"):
        delivered(cluster, [Prepared(T0, 0)], patience_ms=500.0).result()


def test_a_waiting_partition_is_not_given_up_while_another_makes_progress() -> None:
    cluster = FakeCluster()
    cluster.partitions[0].leader = -1
    answers = cluster.produce

    def slow(*given: Any) -> Any:
        cluster.world.now += 300.0
        if cluster.partitions[1].end == 5:
            cluster.partitions[0].leader = 1
        return answers(*given)

    cluster.produce = slow  # type: ignore[assignment, method-assign]
    for node in list(cluster.servers):
        cluster.servers[node].close()
        cluster.start(node)
    batches = [Prepared(T0, 0), *(Prepared(T1, number) for number in range(8))]
    delivered(cluster, batches, patience_ms=1_000.0).result()
    assert ends(cluster) == [1, 8]
