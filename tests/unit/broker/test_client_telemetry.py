"""Subscriptions to clients' metrics and pushes (KIP-714), asked of a simulated node to the byte."""

from __future__ import annotations

import pytest

from barnabas.broker.client_telemetry import PUSHED_BYTES_MAX
from barnabas.record.compression import Codec, compress
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.get_telemetry_subscriptions_request import (
    GetTelemetrySubscriptionsRequest,
)
from barnabas.wire.messages.get_telemetry_subscriptions_response import (
    GetTelemetrySubscriptionsResponse,
)
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.push_telemetry_request import PushTelemetryRequest
from tests.unit.broker.world import Cluster, code


@pytest.fixture
def one() -> Cluster:
    return Cluster(1, telemetry_max_bytes="1000")


def subscribe(cluster: Cluster, name: str, **configs: str) -> None:
    before = cluster.broker().image.config_version
    resource = AlterConfigsResource(
        resource_type=16,
        resource_name=name,
        configs=[
            AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    response = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == 0, response.responses[0]
    cluster.until(lambda: cluster.broker().image.config_version != before)


def ask(cluster: Cluster, instance: Uuid = ZERO_UUID) -> GetTelemetrySubscriptionsResponse:
    response: GetTelemetrySubscriptionsResponse = cluster.ask(
        GetTelemetrySubscriptionsRequest(client_instance_id=instance)
    )
    return response


def push(
    cluster: Cluster, instance: Uuid, subscription: int, metrics: bytes = b"m",
    codec: int = 0, terminating: bool = False,
) -> str:  # fmt: skip
    response = cluster.ask(
        PushTelemetryRequest(
            client_instance_id=instance, subscription_id=subscription, terminating=terminating,
            compression_type=codec, metrics=metrics,
        )
    )  # fmt: skip
    return code(response.error_code)


def pushed(cluster: Cluster) -> list[bytes]:
    response = cluster.ask(DescribeClusterRequest(include_client_metrics=True))
    return [bytes(found.metrics) for found in response.client_metrics]


def test_client_that_nothing_asks_for_metrics_asks_every_five_minutes(one: Cluster) -> None:
    response = ask(one)
    assert (response.error_code, list(response.requested_metrics)) == (0, [])
    assert (response.push_interval_ms, response.telemetry_max_bytes) == (300_000, 1000)
    assert list(response.accepted_compression_types) == [4, 3, 1, 2]
    assert response.client_instance_id != ZERO_UUID and response.delta_temporality


def test_subscriptions_that_match_add_up(one: Cluster) -> None:
    subscribe(one, "a", metrics="org.apache.kafka.producer.", interval_ms="5000")
    subscribe(one, "b", metrics="org.apache.kafka.consumer.", interval_ms="700")
    subscribe(one, "c", metrics="*", interval_ms="100", match="client_id=other")
    response = ask(one)
    assert response.push_interval_ms == 700
    assert list(response.requested_metrics) == [
        "org.apache.kafka.consumer.", "org.apache.kafka.producer.",
    ]  # fmt: skip
    subscribe(one, "d", metrics="*", match="client_id=te.t,client_source_port=[0-9]+")
    changed = ask(one, Uuid(response.client_instance_id))
    assert list(changed.requested_metrics) == ["*"]
    assert changed.subscription_id != response.subscription_id


@pytest.mark.slow
def test_push_is_kept_and_described_until_the_next_one(one: Cluster) -> None:
    subscribe(one, "a", metrics="*", interval_ms="1000")
    found = ask(one)
    who, subscription = Uuid(found.client_instance_id), found.subscription_id
    assert push(one, who, subscription, compress(Codec.ZSTD, b"first"), Codec.ZSTD) == "NONE"
    assert pushed(one) == [b"first"]
    assert push(one, who, subscription) == "THROTTLING_QUOTA_EXCEEDED"
    one.run(1001)
    assert push(one, who, subscription, b"second") == "NONE"
    assert pushed(one) == [b"second"]
    one.run(120_000)
    assert pushed(one) == []


def test_request_for_the_subscription_before_its_interval_is_refused(one: Cluster) -> None:
    found = ask(one)
    again = ask(one, Uuid(found.client_instance_id))
    assert code(again.error_code) == "THROTTLING_QUOTA_EXCEEDED"


def test_push_under_another_subscription_is_refused(one: Cluster) -> None:
    found = ask(one)
    who = Uuid(found.client_instance_id)
    assert push(one, who, found.subscription_id + 1) == "UNKNOWN_SUBSCRIPTION_ID"
    assert ask(one, who).error_code == 0  # at once, since it was refused


def test_last_push_of_a_client_may_come_early_and_is_the_last(one: Cluster) -> None:
    found = ask(one)
    who, subscription = Uuid(found.client_instance_id), found.subscription_id
    assert push(one, who, subscription) == "NONE"
    assert push(one, who, subscription, b"end", terminating=True) == "NONE"
    assert push(one, who, subscription) == "INVALID_REQUEST"
    assert pushed(one) == [b"end"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instance", "metrics", "codec", "expected"),
    [
        (ZERO_UUID, b"m", 0, "INVALID_REQUEST"),
        (Uuid(b"i" * 16), b"m" * 1001, 0, "TELEMETRY_TOO_LARGE"),
        (Uuid(b"i" * 16), compress(Codec.GZIP, b"m" * 1001), 1, "TELEMETRY_TOO_LARGE"),
        (Uuid(b"i" * 16), b"not zstd", 4, "INVALID_RECORD"),
        (Uuid(b"i" * 16), b"m", 9, "UNSUPPORTED_COMPRESSION_TYPE"),
    ],
)
def test_push_that_cannot_be_kept_is_refused(
    one: Cluster, instance: Uuid, metrics: bytes, codec: int, expected: str
) -> None:
    subscription = ask(one, instance).subscription_id if instance != ZERO_UUID else 0
    assert push(one, instance, subscription, metrics, codec) == expected


@pytest.mark.slow
def test_pushes_of_many_clients_stay_bounded(one: Cluster) -> None:
    broker = one.broker()
    broker.telemetry.telemetry_bytes_max = PUSHED_BYTES_MAX // 3
    for number in range(5):
        who = Uuid(bytes([number + 1]) * 16)
        assert (
            push(one, who, ask(one, who).subscription_id, b"m" * (PUSHED_BYTES_MAX // 3)) == "NONE"
        )
    kept = list(broker.telemetry.pushes())
    assert [instance.id[0] for instance in kept] == [3, 4, 5]
