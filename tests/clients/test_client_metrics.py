"""librdkafka pushes its metrics where a subscription asks for them; the command line shows them (KIP-714)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from tests.clients.checks import fresh, wait_for

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("opentelemetry.proto", reason="opentelemetry-proto is not installed")
pytestmark = pytest.mark.process


def shown(cluster: Cluster, client: str) -> list[dict[str, Any]]:
    command = ["cluster", "client-metrics", "--json", "--client", client]
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", *command, "--bootstrap", cluster.bootstrap],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return list(json.loads(done.stdout))


def subscribe(cluster: Cluster, name: str, configs: dict[str, str]) -> None:
    resource = AlterConfigsResource(
        resource_type=16,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in configs.items()],
    )
    with connect(cluster.bootstrap) as connected:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        connected.call(connected.client.cluster.refresh())
        node = min(connected.client.cluster.brokers)
        response: IncrementalAlterConfigsResponse = connected.call(
            connected.client.ask_node(node, request, timeout_ms=10_000)
        )
    assert response.responses[0].error_code == 0, response.responses[0]


def test_metrics_that_librdkafka_pushes_are_shown(cluster: Cluster) -> None:
    name = fresh("telemetry")
    subscribe(
        cluster, name,
        {
            "metrics": "org.apache.kafka.producer.",
            "interval.ms": "500",
            "match": f"client_id={name}",
        },
    )  # fmt: skip
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "client.id": name})
    topic = fresh("measured")

    def is_shown() -> bool:
        producer.produce(topic, b"value")
        producer.flush(10)
        return any(
            m["metric"].startswith("org.apache.kafka.producer.") for m in shown(cluster, name)
        )

    wait_for(is_shown, "metrics of the producer", 30)
    measured = shown(cluster, name)
    assert {m["client_id"] for m in measured} == {name}
    assert {m["software"].split()[0] for m in measured} == {"confluent-kafka-python"}
