"""Other people's clients on a secure cluster: TLS with PLAIN and SCRAM, through a leader's kill -9.

Every listener is secured: SASL_SSL for clients and between brokers, mutual TLS between nodes and controllers.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from barnabas.client.delegation_tokens import list_tokens
from barnabas.client.network.connection import ChannelError
from barnabas.client.records import ProducerRecord
from barnabas.config.properties import parse_properties
from barnabas.host.client import connect, parse_bootstrap
from barnabas.pipeline.options import cluster_options
from barnabas.testing.cluster import Cluster
from barnabas.types import Endpoint
from barnabas.wire.envelope import wrap
from barnabas.wire.errors import ErrorCode
from barnabas.wire.errors import KafkaError as KafkaFailure
from barnabas.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.wire.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from barnabas.wire.request import RequestContext
from tests.clients.access import as_user, by_delegation_token, password_of
from tests.clients.round_trips import (
    by_aiokafka,
    by_confluent_kafka,
    by_kafka_python,
    errors_of_librdkafka,
    new_topic,
)

pytestmark = [pytest.mark.process, pytest.mark.slow]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAIT_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": "100", "connections.max.reauth.ms": "2000"}
    with Cluster(nodes=3, settings=settings, secure=True) as cluster:
        yield cluster


def topic_of_three(cluster: Cluster) -> str:
    return new_topic(cluster, 3, 3)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_produces_and_consumes(cluster: Cluster, mechanism: str) -> None:
    access = as_user(cluster, mechanism, "user")
    assert by_confluent_kafka(access, topic_of_three(cluster), 300) == 300


def test_a_session_outlives_its_re_authentications(cluster: Cluster) -> None:
    """librdkafka authenticates again before ``connections.max.reauth.ms`` have passed."""
    topic = topic_of_three(cluster)
    producer = Producer(as_user(cluster, "SCRAM-SHA-512", "user").librdkafka())
    consumer = Consumer(
        as_user(cluster, "SCRAM-SHA-256", "user").librdkafka()
        | {"group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found = 0
    for index in range(30):
        producer.produce(topic, str(index))
        assert producer.flush(WAIT_S) == 0
        message = consumer.poll(0.2)
        found += message is not None and message.error() is None
    while found < 30:
        message = consumer.poll(WAIT_S)
        assert message is not None
        found += message.error() is None
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(cluster: Cluster, mechanism: str) -> None:
    wrong = as_user(cluster, mechanism, "user", "wrong").librdkafka()
    assert KafkaError._AUTHENTICATION in errors_of_librdkafka(wrong)


def test_kafka_python_produces_and_consumes(cluster: Cluster) -> None:
    access = as_user(cluster, "SCRAM-SHA-512", "user")
    assert by_kafka_python(access, topic_of_three(cluster), 50) == 50


def test_aiokafka_produces_and_consumes(cluster: Cluster) -> None:
    access = as_user(cluster, "SCRAM-SHA-256", "user")
    assert by_aiokafka(access, topic_of_three(cluster), 50) == 50


def test_our_client_produces_through_a_leaders_death(cluster: Cluster) -> None:
    topic = topic_of_three(cluster)
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        leader = client.topic(topic).partitions[0].leader
        with client.producer() as producer:
            for index in range(200):
                if index == 100:
                    cluster.kill(leader)
                producer.send(ProducerRecord(topic, str(index).encode(), partition=0))
        values = [record.value for record in client.read([topic])]
    cluster.restart(leader)
    assert sorted(values, key=lambda v: int(bytes(v or b""))) == [b"%d" % i for i in range(200)]


def test_no_user_makes_a_topic_before_an_entry_allows_it(cluster: Cluster, tmp_path: Path) -> None:
    """Neither the user of ``up --secure`` nor one that the administrator adds, who may not produce either."""
    topic, secret = topic_of_three(cluster), tmp_path / "secret"
    secret.write_text("alice-secret")
    at = ["--data", str(cluster.directory / "cluster")]
    added = barnabas("users", "add", "alice", "--password-file", str(secret), *at)
    assert added.returncode == 0, added.stderr
    user = parse_properties((cluster.directory / "cluster/user.properties").read_text())
    alice = as_user(cluster, "SCRAM-SHA-512", "alice", "alice-secret").properties
    for properties in (user, alice):
        with connect(cluster.bootstrap, properties=properties) as client:
            with pytest.raises(KafkaFailure) as refused:
                client.create_topic(f"{topic}-more", 1, 3)
            assert refused.value.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                                          ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # fmt: skip
    with connect(cluster.bootstrap, properties=alice) as client:
        assert topic not in [each.name for each in client.topics()]
    allowed = [
        "--allow-principal",
        "User:alice",
        "--operation",
        "Create",
        "--topic",
        f"{topic}-more",
    ]
    assert barnabas("acls", "add", *allowed, *at).returncode == 0
    with connect(cluster.bootstrap, properties=alice) as client:
        client.create_topic(f"{topic}-more", 1, 3)


def test_our_client_says_why_it_is_not_let_in(cluster: Cluster) -> None:
    wrong = dict(cluster.client_properties)
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace('password="', 'password="x')
    refused = pytest.raises(ChannelError, match="invalid credentials")
    with connect(cluster.bootstrap, properties=wrong) as client, refused as failure:
        client.topics()
    assert failure.value.kind == "authentication"


def test_a_client_that_trusts_another_authority_gets_an_error(
    cluster: Cluster, tmp_path: Path
) -> None:
    from barnabas.cli.local.certificate_authority import Authority

    other = tmp_path / "ca.pem"
    other.write_text(Authority().pem)
    properties = cluster.client_properties | {"ssl.truststore.location": str(other)}
    refused = pytest.raises(ChannelError, match="does not trust the peer's certificate")
    with connect(cluster.bootstrap, properties=properties) as client, refused:
        client.topics()


def barnabas(*arguments: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "barnabas", *arguments]
    return subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)


def shown_certificates(cluster: Cluster) -> dict[tuple[str, str], str]:
    """Fingerprints, by node and listener."""
    data = ["--data", str(cluster.directory / "cluster")]
    listed = json.loads(barnabas("certificates", "list", "--json", *data).stdout)
    return {(row["node"], row["listener"]): row["fingerprint"] for row in listed}


def test_nodes_that_run_show_renewed_certificates(cluster: Cluster) -> None:
    topic = topic_of_three(cluster)
    before = shown_certificates(cluster)
    assert len(before) == 6  # a broker's and a controller's listener of three nodes
    producer = Producer(as_user(cluster, "PLAIN", "user").librdkafka())
    producer.produce(topic, b"before")
    assert producer.flush(WAIT_S) == 0
    data = ["--data", str(cluster.directory / "cluster")]
    done = barnabas("certificates", "renew", "--days", "20", *data)
    assert done.returncode == 0 and "authority" not in done.stderr, done.stderr
    after = shown_certificates(cluster)
    assert after.keys() == before.keys() and not set(after.values()) & set(before.values())
    producer.produce(topic, b"after")  # by a connection from before
    assert producer.flush(WAIT_S) == 0
    fresh = Producer(as_user(cluster, "SCRAM-SHA-256", "user").librdkafka())
    fresh.produce(topic, b"new")
    assert fresh.flush(WAIT_S) == 0
    described = barnabas("cluster", "describe", "--json", *data)
    found = json.loads(described.stdout)["certificates"]
    assert {(each["node_id"], each["seconds"] // 86_400) for each in found} == {
        (node, 19) for node in cluster.node_ids
    }
    assert "the certificate of CONTROLLER ends in 19 days" in described.stderr


def test_the_nodes_files_pass_the_check(cluster: Cluster, tmp_path: Path) -> None:
    folder = cluster.directory / "cluster/security"
    given = [str(folder / "node-1.pem"), "--ca", str(folder / "ca.pem"), "--name", "localhost"]
    done = barnabas("certificates", "check", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    done = barnabas("certificates", "check", *given, "--name", "example.com", "--json")
    assert done.returncode == 1
    results = {each["check"]: each["result"] for each in json.loads(done.stdout)}
    assert results["names"] == "problem" and results["key"] == results["chain"] == "ok"


def test_no_password_is_in_any_log(cluster: Cluster) -> None:
    for node in cluster.node_ids:
        text = cluster.log_text(node)
        for user in ("user", "admin", "broker"):
            assert password_of(cluster, user) not in text


def test_a_forged_envelope_ends_the_connection(cluster: Cluster) -> None:
    """Only controllers' listeners serve Envelope, and those want a node's certificate. One that came by a
    delegation token, and may therefore not ask for tokens, cannot say that it came by a password."""
    users = DescribeUserScramCredentialsRequest(users=None)
    token = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    user = parse_properties((cluster.directory / "cluster/user.properties").read_text())
    for properties, asked, version in (
        (user, users, 0),
        (by_delegation_token(cluster).properties, token, 3),
    ):
        claimed = RequestContext(api_key=asked.API_KEY, api_version=version, principal="User:admin")
        forged = wrap(asked, claimed)
        with connect(cluster.bootstrap, properties=properties) as client:
            client.topics()
            for endpoint, kinds in (
                (parse_bootstrap(cluster.bootstrap)[0], {"closed", "unsupported"}),
                (controller_of(cluster), {"closed", "authentication"}),
            ):
                with pytest.raises(ChannelError) as refused:
                    client.call(client.client.send(endpoint, forged, version=0, timeout_ms=5_000))
                assert refused.value.kind in kinds
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        assert len(client.call(list_tokens(client.client))) == 1


def controller_of(cluster: Cluster) -> Endpoint:
    listeners = cluster.node(cluster.node_ids[0])["listeners"]
    return parse_bootstrap(str(listeners["CONTROLLER"]).rpartition("/")[2])[0]


def test_no_secret_is_in_a_description(cluster: Cluster) -> None:
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        client.topics()
        shown = repr(client.call(client.admin.describe_configs(4, str(cluster.node_ids[0]))))
        assert "sasl.enabled.mechanisms" in shown
    for user in ("user", "admin", "broker"):
        assert password_of(cluster, user) not in shown


def test_the_command_line_takes_a_clients_file(cluster: Cluster) -> None:
    topic = topic_of_three(cluster)
    asked = [sys.executable, "-m", "barnabas", "topics", "list", "--bootstrap", cluster.bootstrap]
    let_in = [*asked, "--command-config", str(cluster.client_file)]
    done = subprocess.run(let_in, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and topic in done.stdout, done.stderr
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr


def test_a_spark_task_reaches_the_cluster_by_its_options(cluster: Cluster) -> None:
    topic = topic_of_three(cluster)
    given = {f"kafka.{key}": value for key, value in cluster.client_properties.items()}
    options = cluster_options({"kafka.bootstrap.servers": cluster.bootstrap, **given})
    assert password_of(cluster, "admin") not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options
    assert options.connect().partition_count(topic) == 3
    options.connect().close()
