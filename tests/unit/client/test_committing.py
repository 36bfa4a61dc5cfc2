"""Offsets of several topics, one of which is gone."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client import offsets
from barnabas.client.client import Client
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import CommittedOffset, GroupIdentity
from barnabas.sim.cluster import CLIENT_PORT
from barnabas.types import Endpoint, TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from tests.unit.broker.world import Cluster

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
LONG = "x" * 5_000


def begun(client: Client, wanted: dict[TopicPartition, CommittedOffset]) -> list[TaskOutcome[Any]]:
    done: list[TaskOutcome[Any]] = []
    client.tasks.start(offsets.commit(client, GroupIdentity("g"), wanted), done.append)
    return done


@pytest.fixture
def one() -> tuple[Cluster, Client]:
    """A cluster that had two topics when the client learned of them, and has one."""
    cluster = Cluster(1)
    for name in ("a", "b"):
        cluster.create_topic(name)
    client = Client(cluster.client, [Endpoint("n1", CLIENT_PORT)], "test")
    first = begun(client, dict.fromkeys((A, B), CommittedOffset(1)))
    cluster.until(lambda: first)
    first[0].result()
    cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="b")], timeout_ms=5_000))
    cluster.until(lambda: "b" not in cluster.broker().image.topics_by_name)
    return cluster, client


@pytest.mark.slow
def test_a_commit_is_not_repeated_while_another_is_refused(
    one: tuple[Cluster, Client],
) -> None:
    """A later commit of the same consumer was undone each half second."""
    cluster, client = one
    both = begun(client, dict.fromkeys((A, B), CommittedOffset(5)))
    cluster.run(2_000)
    later = begun(client, {A: CommittedOffset(7)})
    cluster.until(lambda: later)
    later[0].result()
    cluster.until(lambda: both, 70_000)
    with pytest.raises(KafkaError) as refused:
        both[0].result()
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    assert refused.value.code in unknown
    found: list[TaskOutcome[Any]] = []
    client.tasks.start(offsets.committed_offsets(client, "g", [A]), found.append)
    cluster.until(lambda: found)
    assert found[0].result()[A].offset == 7


def test_a_fatal_refusal_is_reported_at_once(one: tuple[Cluster, Client]) -> None:
    cluster, client = one
    wanted = {B: CommittedOffset(5), A: CommittedOffset(5, metadata=LONG)}
    refused = begun(client, wanted)
    cluster.until(lambda: refused, 5_000)
    with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE"):
        refused[0].result()
