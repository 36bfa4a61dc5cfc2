"""What programs that use Apache Kafka's clients and ours on one topic may rely on: both decide alike."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.client import Client
from barnabas.client.consumers.assignors import assign_range, assign_round_robin, in_turn
from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.producers.producer import Producer, ProducerSettings
from barnabas.client.records import ProducerRecord, partition_for
from barnabas.record.batch import HEADER, BatchHeader
from barnabas.types import TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.metadata_response import MetadataResponse
from tests.unit.client.fake_cluster import FakeCluster, FakePartition

T0 = TopicPartition("t", 0)


def run(cluster: FakeCluster, ms: float) -> None:
    cluster.world.run(cluster.world.now + ms)


def written(cluster: FakeCluster, partition: int = 0) -> list[BatchHeader]:
    batches = cluster.partitions[partition].batches
    return [BatchHeader._make(HEADER.unpack_from(batch)) for batch in batches]


def test_partitions_that_are_added_get_the_keys_that_are_theirs_by_then() -> None:
    """A producer to which nothing happened went on with the number it had heard of first."""
    cluster = FakeCluster(nodes=1, partitions=1)
    producer = Producer(cluster.client())
    key = next(b"%d" % n for n in range(100) if partition_for(b"%d" % n, 2) == 1)

    def send() -> int:
        outcome = producer.send(ProducerRecord("t", b"v", key))
        run(cluster, 1000)
        return outcome.result().partition

    assert send() == 0
    cluster.partitions[1] = FakePartition(1)
    run(cluster, 301_000)
    send()
    assert send() == 1


@pytest.mark.parametrize("acks", [0, 1])
def test_a_producer_without_acks_all_keeps_no_sequence(acks: int) -> None:
    """What a leader loses was a gap in it, and all that followed was refused."""
    cluster = FakeCluster(nodes=1, partitions=1)
    producer = Producer(cluster.client(), ProducerSettings(acks=acks))
    producer.send(ProducerRecord("t", b"v"))
    run(cluster, 1000)
    assert [header.producer_id for header in written(cluster)] == [-1]
    assert cluster.ids == 0


def test_a_client_rebootstraps_when_the_broker_requires_it() -> None:
    """KIP-1102. It took the empty answer for the metadata, and asked the same broker again."""
    cluster = FakeCluster(nodes=2, partitions=1)
    client = Client(cluster.world, [cluster.endpoints[1]], "test")
    client.tasks.start(client.cluster.refresh(["t"]))
    run(cluster, 100)

    def moved(request: Any, ctx: Any, node: int) -> Any:
        return MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)

    cluster.servers[2].table.replace(ApiKey.METADATA, moved)
    client.cluster.topics.clear()
    client.cluster.avoid(cluster.endpoints[1])
    client.tasks.start(client.cluster.refresh(["t"]))
    run(cluster, 1000)
    assert client.cluster.leader(T0) == 1


def test_a_fault_within_a_broker_does_not_end_a_consumer() -> None:
    cluster = FakeCluster(nodes=1, partitions=1)
    Producer(cluster.client()).send(ProducerRecord("t", b"v"))
    run(cluster, 1000)
    fault = ErrorCode.UNKNOWN_SERVER_ERROR
    faults = {ApiKey.LIST_OFFSETS: 2, ApiKey.FETCH: 2}
    table = cluster.servers[1].table
    for key, inner in ((ApiKey.LIST_OFFSETS, cluster.list_offsets), (ApiKey.FETCH, cluster.fetch)):

        def answer(request: Any, ctx: Any, node: int, key: Any = key, inner: Any = inner) -> Any:
            response = inner(request, ctx, node)
            if faults[key]:
                faults[key] -= 1
                topics = response.topics if key is ApiKey.LIST_OFFSETS else response.responses
                topics[0].partitions[0].error_code = fault
            return response

        table.replace(key, answer)
    consumer = Consumer(cluster.client(), None, ConsumerSettings(auto_offset_reset="earliest"))
    consumer.assign([T0])
    run(cluster, 3000)
    assert [record.value for record in consumer.poll()] == [b"v"]
    assert consumer.failure is None and not any(faults.values())


def test_a_policy_that_is_not_known_is_refused() -> None:
    """It was taken for ``latest``, and what stood in the topic was passed over."""
    with pytest.raises(ValueError, match="auto_offset_reset"):
        ConsumerSettings(auto_offset_reset="by_duration:P1D")


def test_static_members_come_first_and_in_the_order_of_their_names() -> None:
    """Whichever member leads the group: what a static member has does not change when it comes back."""
    instances = {"a-1": None, "z-9": "first", "b-2": None, "a-7": "second"}
    order = in_turn(instances)
    assert order == ["z-9", "a-7", "a-1", "b-2"]
    subscriptions = {member: ["t"] for member in order}
    for assign in (assign_range, assign_round_robin):
        given = assign(subscriptions, {"t": 5})
        assert [[tp.partition for tp in given[member]] for member in order[1:]] == (
            [[2], [3], [4]] if assign is assign_range else [[1], [2], [3]]
        )


@pytest.mark.parametrize("sent_before", [False, True])
def test_a_batch_out_of_sequence_at_its_first_send_goes_under_a_new_identity(
    sent_before: bool,
) -> None:
    """KIP-360. It failed, though it cannot be in the log; of what was sent before that is not known."""
    cluster = FakeCluster(nodes=1, partitions=1)
    producer = Producer(cluster.client(), ProducerSettings(linger_ms=0, request_timeout_ms=100))
    first = producer.send(ProducerRecord("t", b"first", partition=0))
    run(cluster, 1000)
    assert first.done
    cluster.partitions[0].sequences.clear()  # the leader that comes lost what the last one knew
    cluster.partitions[0].batches.clear()
    cluster.partitions[0].end = 0
    cluster.mute = int(sent_before)
    outcomes = [producer.send(ProducerRecord("t", b"%d" % n, partition=0)) for n in range(3)]
    run(cluster, 1000)
    if sent_before:
        with pytest.raises(KafkaError) as refused:
            outcomes[0].result()
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    else:
        assert [outcome.result().offset for outcome in outcomes] == [0, 1, 2]
        assert [header.producer_id for header in written(cluster)] == [2]
        assert cluster.ids == 2
