"""Clients with bearer tokens on a cluster whose brokers know each other by tokens as well."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from barnabas.client.network.connection import ChannelError
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.pipeline.options import cluster_options
from barnabas.testing.cluster import Cluster
from tests.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider

pytestmark = [pytest.mark.process, pytest.mark.slow]
WAIT_S = 30.0
LIFE_S = 6.0
"""Of a token: sessions of the tests outlive it."""
START = "sasl.oauthbearer.client.credentials.client."


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(lasts_s=LIFE_S) as provider:
        yield provider


@pytest.fixture(scope="module")
def cluster(provider: IdentityProvider) -> Iterator[Cluster]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        START + "id": "broker",
        START + "secret": SECRET,
        "super.users": f"User:admin;User:broker;User:{CLIENT}",
    }
    with Cluster(nodes=2, settings=settings, secure=True) as cluster:
        yield cluster


def authority(cluster: Cluster) -> str:
    return str(cluster.directory / "cluster/security/ca.pem")


def new_topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        client.create_topic(name, 2, 2)
    return name


def with_token(cluster: Cluster, provider: IdentityProvider) -> dict[str, str]:
    """A client's properties for Barnabas and for Kafka's tools."""
    kept = {k: v for k, v in cluster.client_properties.items() if not k.startswith("sasl.")}
    return kept | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer"
        ".OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        " required;",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        START + "id": CLIENT,
        START + "secret": SECRET,
    }


def confluent(cluster: Cluster, token: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": authority(cluster),
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: token(),
    }


def test_confluent_kafka_outlives_its_tokens(cluster: Cluster, provider: IdentityProvider) -> None:
    topic = new_topic(cluster)

    def token() -> tuple[str, float]:
        return provider.token(), time.time() + LIFE_S

    producer = Producer(confluent(cluster, token))
    consumer = Consumer(
        confluent(cluster, token) | {"group.id": topic, "auto.offset.reset": "earliest"}
    )
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
    errors: list[KafkaError] = []
    token = provider.token(aud="elsewhere")
    settings = confluent(cluster, lambda: (token, time.time() + LIFE_S))
    client = AdminClient(settings | {"error_cb": errors.append})
    with pytest.raises(Exception, match=r"_TRANSPORT|_AUTHENTICATION|timed out|Failed"):
        client.list_topics(timeout=2)
    for _ in range(20):
        client.poll(0.1)
    assert KafkaError._AUTHENTICATION in [error.code() for error in errors]
    log = "".join(cluster.log_text(node) for node in cluster.node_ids)
    assert "the token is for another audience" in log and token not in log


def test_kafka_python_produces_and_consumes(cluster: Cluster, provider: IdentityProvider) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return provider.token()

    topic = new_topic(cluster)
    settings = {
        "bootstrap_servers": cluster.bootstrap.split(","),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": authority(cluster),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(),
    }
    producer = KafkaProducer(**settings)
    for index in range(50):
        producer.send(topic, str(index).encode())
    producer.flush(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    values = set()
    for record in consumer:
        values.add(record.value)
        if len(values) == 50:
            break
    consumer.close()
    assert len(values) == 50


def test_aiokafka_produces_and_consumes(cluster: Cluster, provider: IdentityProvider) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return provider.token()

    topic = new_topic(cluster)

    async def run() -> int:
        settings = {
            "bootstrap_servers": cluster.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=authority(cluster)),
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Tokens(),
        }
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        for index in range(50):
            await producer.send_and_wait(topic, str(index).encode())
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings)
        await consumer.start()
        count = 0
        while count < 50:
            await asyncio.wait_for(consumer.getone(), WAIT_S)
            count += 1
        await consumer.stop()
        return count

    assert asyncio.run(run()) == 50


def test_our_client_gets_its_tokens_itself(cluster: Cluster, provider: IdentityProvider) -> None:
    topic = new_topic(cluster)
    own = with_token(cluster, provider)
    with connect(cluster.bootstrap, properties=own) as client:
        with client.producer() as producer:
            for index in range(20):
                producer.send(ProducerRecord(topic, str(index).encode()))
        assert len(list(client.read([topic]))) == 20
    wrong = own | {START + "secret": "wrong-7"}
    refused = pytest.raises(ChannelError, match="status 401")
    with connect(cluster.bootstrap, properties=wrong) as client, refused as failure:
        client.topics()
    assert "wrong-7" not in str(failure.value)


def test_a_spark_task_gets_its_tokens_itself(cluster: Cluster, provider: IdentityProvider) -> None:
    topic = new_topic(cluster)
    given = {f"kafka.{key}": value for key, value in with_token(cluster, provider).items()}
    options = cluster_options({"kafka.bootstrap.servers": cluster.bootstrap, **given})
    assert SECRET not in repr(options)
    connection = options.connect()
    assert connection.partition_count(topic) == 2
    connection.close()


def test_followers_copy_by_tokens(cluster: Cluster, provider: IdentityProvider) -> None:
    topic = new_topic(cluster)
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
    from tests.peers import LIBS

    topic = new_topic(cluster)
    token = tmp_path / "token"
    token.write_text(provider.token(lasts_s=600))
    for url in (provider.token_url, f"file://{token}"):
        file = tmp_path / "client.properties"
        own = with_token(cluster, provider) | {"sasl.oauthbearer.token.endpoint.url": url}
        file.write_text(format_properties(own, "A client."))
        done = subprocess.run(
            [
                "java", "-Xmx200m", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}",
                f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={token}",
                "-cp", f"{LIBS}/*", "org.apache.kafka.tools.TopicCommand", "--list",
                "--bootstrap-server", cluster.bootstrap, "--command-config", str(file),
            ],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert topic in done.stdout, done.stdout + done.stderr
