"""``barnabas transactions`` against a node: what is under way, and a transaction that hangs on purpose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.offsets import CommittedOffset, GroupIdentity
from barnabas.client.producers.transactional_producer import TransactionalProducer
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from tests.hanging_transaction import UNVERIFIED, leave_open
from tests.process.launch import barnabas

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with Cluster(nodes=1, settings={**settings, UNVERIFIED: "false"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def connected(cluster: Cluster) -> Iterator[Connected]:
    connected = connect(cluster.bootstrap)
    connected.create_topic("t", 2, 1)
    yield connected
    connected.close()


def ask(cluster: Cluster, *arguments: str) -> Any:
    ended = barnabas("transactions", *arguments, "--json", "--bootstrap", cluster.bootstrap)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


T = TopicPartition("t", 0)


def test_a_transaction_is_listed_and_described(cluster: Cluster, connected: Connected) -> None:
    producer = TransactionalProducer(connected.client, "app")
    connected.call(producer.init())
    producer.begin()
    producer.send(ProducerRecord("t", b"a", partition=1))
    connected.call(producer.send_offsets({T: CommittedOffset(0)}, GroupIdentity("g")))
    connected.call(producer._producer.flush())
    [listed] = ask(cluster, "list", "--state", "Ongoing")
    assert (listed["transactional_id"], listed["coordinator"]) == ("app", 1)
    assert ask(cluster, "list", "--transactional-id-pattern", "unknown.*") == []
    described = ask(cluster, "describe", "app")
    assert described["state"] == "Ongoing"
    assert described["partitions"] == ["__consumer_offsets-0", "t-1"]
    assert described["running_ms"] >= 0
    connected.call(producer.commit())
    assert ask(cluster, "list", "--state", "Ongoing") == []
    table = barnabas("transactions", "list", "--bootstrap", cluster.bootstrap).stdout
    assert "transactional id" in table
    assert "app" in table


def test_an_unknown_transactional_id_and_state_are_refused(cluster: Cluster) -> None:
    ended = barnabas("transactions", "describe", "unknown", "--bootstrap", cluster.bootstrap)
    assert ended.returncode == 1
    assert "no such transactional id" in ended.stderr
    ended = barnabas("transactions", "list", "--state", "Odd", "--bootstrap", cluster.bootstrap)
    assert ended.returncode == 1
    assert "there is no state Odd" in ended.stderr


def test_a_hanging_transaction_is_found_and_ended(cluster: Cluster, connected: Connected) -> None:
    producer = TransactionalProducer(connected.client, "alive")
    connected.call(producer.init())
    producer.begin()
    producer.send(ProducerRecord("t", b"a", partition=0))
    connected.call(producer._producer.flush())
    leave_open(connected, T, 777_777)
    assert ask(cluster, "find-hanging", "--topic", "t") == []  # not for long enough
    [found] = ask(cluster, "find-hanging", "--max-transaction-timeout", "0")
    assert (found["topic"], found["partition"], found["producer_id"]) == ("t", 0, 777_777)
    assert found["reason"] == "no transactional id has producer id 777777"
    at = ["--topic", "t", "--partition", "0", "--bootstrap", cluster.bootstrap, "--start-offset"]
    refused = barnabas("transactions", "abort", *at, "0")
    assert refused.returncode == 1
    assert "will end it" in refused.stderr
    missing = barnabas("transactions", "abort", *at, "99")
    assert "no open transaction of t-0 begins at offset 99" in missing.stderr
    ended = barnabas("transactions", "abort", *at, str(found["start_offset"]))
    assert ended.returncode == 0, ended.stderr
    assert ask(cluster, "find-hanging", "--max-transaction-timeout", "0") == []
    connected.call(producer.commit())
    run = connected.fetch({T: 0}, read_committed=True)[T]
    assert [bytes(record.value or b"") for record in run.records(0)] == [b"a"]
