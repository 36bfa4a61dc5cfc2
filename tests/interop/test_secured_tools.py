"""Apache Kafka's tools on a secure cluster: kafka-topics and kafka-configs over SASL_SSL with SCRAM."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.properties import format_properties
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.interop.kafka_tools import CONFIGS
from tests.peers import CLASS_PATH

pytestmark = [pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow]
PATIENCE_S = 60.0
TOPICS = "org.apache.kafka.tools.TopicCommand"
ACLS = "org.apache.kafka.tools.AclCommand"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, secure=True) as cluster:
        yield cluster


def kafka(main: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["java", "-Xmx200m", "-cp", CLASS_PATH, main, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_kafka_configs_makes_a_user_who_then_makes_a_topic(
    cluster: Cluster, tmp_path: Path
) -> None:
    where = ["--bootstrap-server", cluster.bootstrap, "--command-config"]
    users = ["--entity-type", "users", "--entity-name", "alice"]
    secret = "SCRAM-SHA-512=[iterations=8192,password=alice-secret]"
    made = kafka(
        CONFIGS,
        *where, str(cluster.client_file), "--alter", "--add-config", secret, *users,
    )  # fmt: skip
    assert "Completed updating" in made.stdout, made.stdout + made.stderr
    alice = cluster.client_properties
    alice["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="alice" password="alice-secret";'
    )
    file = tmp_path / "alice.properties"
    file.write_text(format_properties(alice, "A client."))
    topic = ["--create", "--topic", "of-alice", "--partitions", "2"]
    refused = kafka(TOPICS, *where, str(file), *topic)
    assert "Authorization failed" in refused.stdout + refused.stderr
    entry = ["--allow-principal", "User:alice", "--operation", "Create", "--topic", "of-alice"]
    let_in = kafka(ACLS, "--bootstrap-server", cluster.bootstrap,
                   "--command-config", str(cluster.client_file), "--add", *entry)  # fmt: skip
    assert "(principal=User:alice" in let_in.stdout, let_in.stdout + let_in.stderr
    created = kafka(TOPICS, *where, str(file), *topic)
    assert "Created topic of-alice" in created.stdout, created.stdout + created.stderr
    removed = kafka(
        CONFIGS, *where, str(cluster.client_file),
        "--alter", "--delete-config", "SCRAM-SHA-512", *users,
    )  # fmt: skip
    assert "Completed updating" in removed.stdout, removed.stdout + removed.stderr
    refused = kafka(TOPICS, *where, str(file), "--list")
    assert "invalid credentials" in refused.stdout + refused.stderr
    with connect(cluster.bootstrap, properties=cluster.client_properties) as client:
        assert len(client.topic("of-alice").partitions) == 2
