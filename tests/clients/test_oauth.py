"""Clients with bearer tokens on a cluster whose brokers know each other by tokens as well."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from barnabas.client.network.connection import ChannelError
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.pipeline.options import cluster_options
from barnabas.testing.cluster import Cluster
from tests.clients.access import CREDENTIALS, by_bearer_token, checking_tokens_of
from tests.clients.round_trips import (
    by_aiokafka,
    by_kafka_python,
    errors_of_librdkafka,
    new_topic,
)
from tests.identity_provider import CLIENT, SECRET, IdentityProvider

pytestmark = [pytest.mark.process, pytest.mark.slow]
WAIT_S = 30.0
LIFE_S = 6.0
"""Of a token: sessions of the tests outlive it."""


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(lasts_s=LIFE_S) as provider:
        yield provider


@pytest.fixture(scope="module")
def cluster(provider: IdentityProvider) -> Iterator[Cluster]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        **checking_tokens_of(provider),
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        CREDENTIALS + "id": "broker",
        CREDENTIALS + "secret": SECRET,
        "super.users": f"User:admin;User:broker;User:{CLIENT}",
    }
    with Cluster(nodes=2, settings=settings, secure=True) as cluster:
        yield cluster


def topic_of_two(cluster: Cluster) -> str:
    return new_topic(cluster, 2, 2)


def test_confluent_kafka_outlives_its_tokens(cluster: Cluster, provider: IdentityProvider) -> None:
    topic = topic_of_two(cluster)

    settings = by_bearer_token(cluster, provider).librdkafka()
    producer = Producer(settings)
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    until, sent, found = time.monotonic() + 2 * LIFE_S, 0, 0
    while time.monotonic() < until:
        producer.produce(topic, str(sent))
        assert producer.flush(WAIT_S) == 0
        sent += 1
        message = consumer.poll(0.1)
        found += message is not None and message.error() is None
    while found < sent:
        message = consumer.poll(WAIT_S)
        assert message is not None
        found += message.error() is None
    consumer.close()


def test_confluent_kafka_is_refused_with_a_wrong_token(
    cluster: Cluster, provider: IdentityProvider
) -> None:
    token = provider.token(aud="elsewhere")
    settings = by_bearer_token(cluster, provider).librdkafka()
    settings["oauth_cb"] = lambda _: (token, time.time() + LIFE_S)
    assert KafkaError._AUTHENTICATION in errors_of_librdkafka(settings)
    log = "".join(cluster.log_text(node) for node in cluster.node_ids)
    assert "the token is for another audience" in log and token not in log


def test_kafka_python_produces_and_consumes(cluster: Cluster, provider: IdentityProvider) -> None:
    assert by_kafka_python(by_bearer_token(cluster, provider), topic_of_two(cluster), 50) == 50


def test_aiokafka_produces_and_consumes(cluster: Cluster, provider: IdentityProvider) -> None:
    assert by_aiokafka(by_bearer_token(cluster, provider), topic_of_two(cluster), 50) == 50


def test_our_client_gets_its_tokens_itself(cluster: Cluster, provider: IdentityProvider) -> None:
    topic = topic_of_two(cluster)
    own = dict(by_bearer_token(cluster, provider).properties)
    with connect(cluster.bootstrap, properties=own) as client:
        with client.producer() as producer:
            for index in range(20):
                producer.send(ProducerRecord(topic, str(index).encode()))
        assert len(list(client.read([topic]))) == 20
    wrong = own | {CREDENTIALS + "secret": "wrong-7"}
    refused = pytest.raises(ChannelError, match="status 401")
    with connect(cluster.bootstrap, properties=wrong) as client, refused as failure:
        client.topics()
    assert "wrong-7" not in str(failure.value)


def test_a_spark_task_gets_its_tokens_itself(cluster: Cluster, provider: IdentityProvider) -> None:
    topic = topic_of_two(cluster)
    given = {
        f"kafka.{key}": value
        for key, value in dict(by_bearer_token(cluster, provider).properties).items()
    }
    options = cluster_options({"kafka.bootstrap.servers": cluster.bootstrap, **given})
    assert SECRET not in repr(options)
    connection = options.connect()
    assert connection.partition_count(topic) == 2
    connection.close()


def test_followers_copy_by_tokens(cluster: Cluster, provider: IdentityProvider) -> None:
    topic = topic_of_two(cluster)
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        with client.producer() as producer:
            for index in range(100):
                producer.send(ProducerRecord(topic, b"x" * 1000, partition=index % 2))
        assert all(len(p.isr) == 2 for p in client.topic(topic).partitions.values())


def test_no_token_and_no_secret_is_in_any_log(cluster: Cluster) -> None:
    for node in cluster.node_ids:
        text = cluster.log_text(node)
        assert SECRET not in text
        assert not re.search(r"eyJ[A-Za-z0-9_-]{10,}\.eyJ", text)


@pytest.mark.peers("kafka")
@pytest.mark.java
def test_kafkas_tools_come_with_a_token(
    cluster: Cluster, provider: IdentityProvider, tmp_path: Path
) -> None:
    """From an endpoint, and from a file; each must be allowed to the Java machine by name."""
    import subprocess

    from barnabas.config.properties import format_properties
    from tests.peers import CLASS_PATH

    topic = topic_of_two(cluster)
    token = tmp_path / "token"
    token.write_text(provider.token(lasts_s=600))
    for url in (provider.token_url, f"file://{token}"):
        file = tmp_path / "client.properties"
        own = dict(by_bearer_token(cluster, provider).properties) | {
            "sasl.oauthbearer.token.endpoint.url": url
        }
        file.write_text(format_properties(own, "A client."))
        done = subprocess.run(
            [
                "java", "-Xmx200m", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}",
                f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={token}",
                "-cp", CLASS_PATH, "org.apache.kafka.tools.TopicCommand", "--list",
                "--bootstrap-server", cluster.bootstrap, "--command-config", str(file),
            ],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert topic in done.stdout, done.stdout + done.stderr
