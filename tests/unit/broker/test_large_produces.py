"""Produce requests for hundreds of partitions: appended in parts, answered as a whole."""

from __future__ import annotations

import pytest

from barnabas.limits import HandlerBounds
from barnabas.metadata.image.topic import Topic
from barnabas.record.builder import build_batch
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.produce_response import ProduceResponse
from tests.unit.broker.world import Cluster, code

APPENDED_INLINE_MAX = HandlerBounds().appended_inline_max

MANY = 250


@pytest.mark.slow
def test_a_produce_that_lost_its_waiting_partitions_names_their_new_leader() -> None:
    cluster = Cluster(2)
    ids = [cluster.create_topic("replicated", 1, 2), cluster.create_topic("many", MANY, 1)]
    node = cluster.leader("replicated")
    cluster.until(lambda: not len(cluster.broker(node).replicas.apply_queue))
    led = [index for index, leader in enumerate(topic(cluster, "many").leader) if leader == node]
    batch = build_batch([(b"k", b"v")], timestamp_ms=1)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[
            TopicProduceData(
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=n, records=batch) for n in indexes],
            )
            for topic_id, indexes in zip(ids, ([0], led))
        ],
    )
    answer = cluster.ask_later(request, node, 13)
    partition = cluster.partition(node, "replicated")
    cluster.until(lambda: partition.describe()["waiting"])
    assert cluster.broker(node).slices.under_way
    state = topic(cluster, "replicated").partition(0)
    other = next(n for n in cluster.ids if n != node)
    partition.become_follower(state._replace(leader=other, leader_epoch=state.leader_epoch + 1))
    cluster.until(lambda: answer.is_there)
    response: ProduceResponse = answer.value
    lost, *rest = (part for t in response.responses for part in t.partition_responses)
    assert code(lost.error_code) == "NOT_LEADER_OR_FOLLOWER"
    assert lost.current_leader.leader_id == state.leader and len(response.node_endpoints) == 1
    assert {part.error_code for part in rest} == {0} and len(rest) == len(led) > APPENDED_INLINE_MAX


def topic(cluster: Cluster, name: str) -> Topic:
    return cluster.broker().image.topics_by_name[name]
