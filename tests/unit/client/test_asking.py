"""A client asks any broker, leaders and coordinators: in shares of its time, in forms that brokers know."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client.client import TRANSACTION, Client, raise_worst
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import EARLIEST, LATEST, OffsetAndTimestamp, existing_offsets
from barnabas.client.producers.identity import new_identity
from barnabas.types import Endpoint, TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.find_coordinator_response import FindCoordinatorResponse
from barnabas.wire.messages.metadata_request import MetadataRequest
from barnabas.wire.request import RequestContext
from tests.unit.client.fake_cluster import FakeCluster
from tests.unit.client.test_silent_bootstrap import Silence

T = TypeVar("T")


def brought(cluster: FakeCluster, client: Client, coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine brings, in as much time as it takes."""
    done: list[TaskOutcome[T]] = []
    client.tasks.start(coroutine, done.append)
    while not done and cluster.world.now < 1_000_000:
        cluster.world.run(cluster.world.now + 100)
    return done[0].result()


@pytest.mark.parametrize("patience_ms", [10_000, 120_000])
def test_brokers_that_are_silent_together_take_no_more_than_the_time(patience_ms: int) -> None:
    cluster = FakeCluster(nodes=1)
    silent = [Endpoint(f"silent{number}", 9092) for number in range(3)]
    for endpoint in silent:
        cluster.world.listen(endpoint, Silence)
    client = Client(cluster.world, silent)
    asking = client.ask_any(MetadataRequest, timeout_ms=patience_ms, in_shares=True)
    with pytest.raises(ChannelError, match="timeout"):
        brought(cluster, client, asking)
    assert 0.75 * patience_ms < cluster.world.now < patience_ms + 3_000


def test_a_silent_broker_leaves_time_for_the_next_one() -> None:
    cluster = FakeCluster(nodes=1)
    silent = Endpoint("silent", 9092)
    cluster.world.listen(silent, Silence)
    client = Client(cluster.world, [silent, cluster.endpoints[1]])
    client.cluster.avoid(cluster.endpoints[1])
    asking = client.ask_any(MetadataRequest, timeout_ms=10_000, in_shares=True)
    assert not brought(cluster, client, asking).topics
    assert cluster.world.now <= 5_200


def test_a_broker_before_kafka_3_is_asked_for_one_coordinator() -> None:
    cluster = FakeCluster(nodes=1)
    table = cluster.servers[1].table
    found = table.get(ApiKey.FIND_COORDINATOR)
    assert found is not None
    asked: list[Any] = []

    def find(request: Any, ctx: RequestContext, node: int) -> Any:
        asked.append((ctx.api_version, request.key, request.key_type))
        return FindCoordinatorResponse(node_id=1, host="broker1", port=9092)

    table._entries[ApiKey.FIND_COORDINATOR] = found._replace(max_version=3, handle=find)
    client = cluster.client()
    assert brought(cluster, client, client.coordinator(TRANSACTION, "id")) == cluster.endpoints[1]
    assert asked == [(3, "id", TRANSACTION)]


def test_a_client_of_one_stream_has_one_connection_for_all_purposes() -> None:
    cluster = FakeCluster(nodes=1)
    client = Client(cluster.world, [cluster.endpoints[1]], by_purpose=False)
    brought(cluster, client, client.cluster.refresh(["t"]))
    assert brought(cluster, client, new_identity(client)) == (1, 0)
    ends = brought(cluster, client, existing_offsets(client, {TopicPartition("t", 0): LATEST}))
    assert ends == {TopicPartition("t", 0): OffsetAndTimestamp(0, -1, -1)}
    assert len(cluster.servers[1].connections) == 1


class TestExistingOffsets:
    def test_partitions_that_do_not_exist_are_left_out(self) -> None:
        cluster = FakeCluster(nodes=2)
        cluster.partitions[0].end = 7
        client = cluster.client()
        wanted = {TopicPartition("t", index): LATEST for index in (0, 1, 2)}
        wanted[TopicPartition("none", 0)] = EARLIEST
        found = brought(cluster, client, existing_offsets(client, wanted))
        assert {at: known.offset for at, known in found.items()} == {
            TopicPartition("t", 0): 7,
            TopicPartition("t", 1): 0,
        }

    def test_a_topic_that_one_broker_does_not_know_yet_is_asked_for_again(self) -> None:
        cluster = FakeCluster(nodes=1)
        cluster.unknown = True
        client = cluster.client()
        asked = client.tasks.start(existing_offsets(client, {TopicPartition("t", 0): LATEST}))
        cluster.world.run(10)
        cluster.unknown = False
        cluster.world.run(1_000)
        assert asked.result() == {TopicPartition("t", 0): OffsetAndTimestamp(0, -1, -1)}

    def test_a_leader_that_has_moved_is_found_again(self) -> None:
        cluster = FakeCluster(nodes=2)
        client = cluster.client()
        wanted = dict.fromkeys((TopicPartition("t", 0), TopicPartition("t", 1)), LATEST)
        brought(cluster, client, existing_offsets(client, wanted))
        cluster.kill(1, successor=2)
        found = brought(cluster, client, existing_offsets(client, wanted))
        assert found.keys() == wanted.keys()

    def test_an_error_that_stays_is_raised_at_once(self) -> None:
        cluster = FakeCluster(nodes=1)
        client = cluster.client()
        wanted = {TopicPartition("no name", 0): LATEST}
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            brought(cluster, client, existing_offsets(client, wanted))
        assert cluster.world.now < 1_000


def test_the_error_that_stays_is_raised_of_several() -> None:
    passing, lasting = ErrorCode.NOT_COORDINATOR, ErrorCode.PRODUCER_FENCED
    with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
        raise_worst([ErrorCode.NONE, passing, lasting], "it")
    raise_worst([ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED], "it")
