"""The transactions of a batch's tasks are ended together, each by its own coordinator."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client.client import Client
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.transaction_coordinator import TransactionCoordinator
from barnabas.pipeline.write.prepared.participants import IN_FLIGHT_MAX, Participant, end_all
from barnabas.sim.cluster import CLIENT_PORT
from barnabas.types import Endpoint, TopicPartition
from barnabas.wire.errors import ErrorCode
from tests.unit.broker.world import Cluster

T = TypeVar("T")


class Simulated:
    """A pipeline's cluster over simulated nodes."""

    patience_ms = 30_000.0
    request_timeout_ms = 10_000.0

    def __init__(self) -> None:
        self.cluster = Cluster(1)
        self.cluster.create_topic("t")
        self.client = Client(self.cluster.client, [Endpoint("n1", CLIENT_PORT)], "test")

    def patiently(
        self, limit_ms: float, what: str, begin: Callable[[Client], Coroutine[Any, Any, T]]
    ) -> T:
        ended: list[TaskOutcome[T]] = []
        self.client.tasks.start(begin(self.client), ended.append)
        self.cluster.until(lambda: ended, 60_000)
        return ended[0].result()


def opened(cluster: Simulated, count: int) -> list[Participant]:
    """Transactions of tasks of driver `d` that have a partition."""

    async def open_one(client: Client, number: int) -> Participant:
        coordinator = TransactionCoordinator(client, f"d.{number}")
        identity = await coordinator.take_identity(transaction_timeout_ms=60_000)
        await coordinator.add_partitions(identity, [TopicPartition("t", 0)])
        return Participant(str(number), *identity)

    async def open_all(client: Client) -> list[Participant]:
        return [await open_one(client, number) for number in range(count)]

    return cluster.patiently(0, "", open_all)


@pytest.mark.slow
def test_many_transactions_are_ended_and_each_says_why_it_is_not() -> None:
    cluster = Simulated()
    listed = opened(cluster, IN_FLIGHT_MAX + 8)
    ended = end_all(cluster, "d", [*listed, *listed], commit=True)  # type: ignore[arg-type]
    assert ended == dict.fromkeys(listed, ErrorCode.NONE)
    again = end_all(cluster, "d", listed, commit=True)  # type: ignore[arg-type]
    assert again == ended
    other = end_all(cluster, "d", listed[:2], commit=False)  # type: ignore[arg-type]
    assert set(other.values()) == {ErrorCode.INVALID_TXN_STATE}
    fenced = [listed[0]._replace(producer_epoch=listed[0].producer_epoch + 5)]
    code = end_all(cluster, "d", fenced, commit=True)[fenced[0]]  # type: ignore[arg-type]
    assert code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert end_all(cluster, "d", [], commit=True) == {}  # type: ignore[arg-type]
