"""Metadata about hundreds of partitions are sent in parts, and are whole all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.broker.cluster_view import ClusterView
from barnabas.broker.handlers import metadata
from barnabas.client.network.connection import ChannelError
from barnabas.sim.cluster import CLIENT_PORT
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.metadata_response import MetadataResponse
from barnabas.wire.request import RequestContext
from tests.unit.broker.world import Cluster

pytestmark = pytest.mark.slow

SIZES = {"a": 400, "b": 1, "c": 300}


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1)
    for name, size in SIZES.items():
        cluster.create_topic(name, size, 1)
    cluster.run(1_000)
    return cluster


def sizes(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: len(topic.partitions) for topic in response.topics if not topic.error_code}


def everything() -> MetadataRequest:
    return MetadataRequest(topics=None)


def test_all_topics_are_described_in_parts(cluster: Cluster) -> None:
    answer = cluster.ask_later(everything())
    cluster.until(lambda: cluster.broker().slices.under_way)
    assert not answer.is_there
    cluster.until(lambda: answer.is_there)
    assert sizes(answer.value) == SIZES
    assert [topic.name for topic in answer.value.topics] == sorted(SIZES)
    assert {p.leader_id for topic in answer.value.topics for p in topic.partitions} == {1}
    for topic in answer.value.topics:
        assert [p.partition_index for p in topic.partitions] == list(range(SIZES[topic.name]))


def test_few_topics_are_described_at_once(cluster: Cluster) -> None:
    few = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="x")])
    context = RequestContext(api_key=few.API_KEY, api_version=12)
    answer = metadata.handle(few, context, cluster.broker())
    assert isinstance(answer, MetadataResponse)
    assert sizes(answer) == {"a": SIZES["a"]}


def test_names_keep_the_order_in_which_they_were_asked(cluster: Cluster) -> None:
    names = ["c", "unknown", "a"]
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    answer = cluster.ask(asked)
    assert [topic.name for topic in answer.topics] == names
    assert answer.topics[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_deleted_meanwhile_may_be_missing_and_the_others_are_not(cluster: Cluster) -> None:
    answer = cluster.ask_later(everything(), purpose="slow")
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="c")], timeout_ms=1_000)
    gone = cluster.ask_later(delete, purpose="other")
    cluster.until(lambda: answer.is_there and gone.is_there)
    found = sizes(answer.value)
    assert found.pop("c", SIZES["c"]) == SIZES["c"]
    assert found == {"a": SIZES["a"], "b": 1}
    assert sizes(cluster.ask(everything())) == {"a": SIZES["a"], "b": 1}


def test_a_closed_connection_gets_no_more_work(cluster: Cluster) -> None:
    answer = cluster.ask_later(everything(), purpose="gone")
    cluster.until(lambda: cluster.broker().slices.under_way)
    cluster.channels.disconnect(Endpoint("n1", CLIENT_PORT), "gone")
    cluster.until(lambda: not cluster.broker().slices.under_way)
    cluster.run(50)
    assert isinstance(answer.value, ChannelError)


def test_partitions_that_wait_for_a_successor_are_described_in_parts(cluster: Cluster) -> None:
    broker = cluster.broker()
    broker.metadata_hold.on_lost(1)
    answer = cluster.ask_later(everything())
    cluster.run(100)
    assert not answer.is_there and broker.metadata_hold.describe()["waiting"] == 1
    broker.metadata_hold.on_reached(1)
    cluster.until(lambda: answer.is_there)
    assert sizes(answer.value) == SIZES


def test_the_broker_that_answers_is_listed_where_none_is_unfenced() -> None:
    broker = Cluster(1).broker()
    [listener] = broker.listeners.endpoints
    context = RequestContext(api_key=MetadataRequest.API_KEY, api_version=12, listener=listener)
    unfenced = metadata.handle(MetadataRequest(topics=[]), context, broker)
    broker.image.brokers[1] = replace(broker.image.brokers[1], fenced=True)
    assert not ClusterView(broker.image, listener).live_brokers(broker.metadata_hold.shown())
    fenced = metadata.handle(MetadataRequest(topics=[]), context, broker)
    assert isinstance(unfenced, MetadataResponse) and isinstance(fenced, MetadataResponse)
    assert fenced.brokers == unfenced.brokers and len(fenced.brokers) == 1
