"""A broker lives by its dynamic configuration without a restart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.metadata.image.image import BROKER
from barnabas.raft.state_machine import CommittedBatch
from barnabas.security.quotas.connection_limits import ConnectionQuotas
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.test_metadata_apply_queue import append_everywhere, lagging
from tests.unit.broker.world import Cluster


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    cluster = Cluster(2)
    topics = [CreatableTopic(name="t", num_partitions=12, replication_factor=2)]
    cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    cluster.until(lambda: all(len(cluster.broker(n).replicas.by_id) == 12 for n in cluster.ids))
    return cluster


def alter(cluster: Cluster, broker: str, key: str, value: str) -> tuple[ErrorCode, str]:
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[change])
    answer = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    told = answer.responses[0]
    return ErrorCode(told.error_code), told.error_message or ""


def test_followers_are_spread_over_as_many_fetchers_as_are_wanted(cluster: Cluster) -> None:
    pool = cluster.broker(1).replicas.fetchers
    assert len(pool) == 1
    assert alter(cluster, "", "num.replica.fetchers", "3")[0] is ErrorCode.NONE
    cluster.until(lambda: len(pool) == 3)
    append_everywhere(cluster)
    cluster.run(2_000)
    assert not lagging(cluster)
    spread = [len(fetcher.followed) for fetcher in pool._fetchers.values()]
    assert sum(spread) == 6 and min(spread) > 0, spread
    assert alter(cluster, "", "num.replica.fetchers", "1")[0] is ErrorCode.NONE
    cluster.until(lambda: len(pool) == 1)


def test_limits_of_connections_follow(cluster: Cluster) -> None:
    assert alter(cluster, "", "listener.name.plaintext.max.connections", "9")[0] is ErrorCode.NONE
    assert alter(cluster, "1", "max.connections.per.ip.overrides", "n9:5")[0] is ErrorCode.NONE
    assert (
        alter(cluster, "", "max.connections.per.ip.overrides", "n9")[0] is ErrorCode.INVALID_REQUEST
    )
    first, other = (connections(cluster, broker) for broker in (1, 2))
    cluster.until(lambda: first.limits.own == {"n9": 5})
    cluster.until(lambda: other.limits.of_listener["PLAINTEXT"].most == 9)
    assert other.limits.own == {}


def connections(cluster: Cluster, broker: int) -> ConnectionQuotas:
    node = cluster.sim.nodes[broker].node
    assert node is not None
    return node.listeners.connections


def test_the_cleaner_and_the_producers_time_follow(cluster: Cluster) -> None:
    logs = cluster.broker(1).logs
    assert alter(cluster, "1", "log.cleaner.backoff.ms", "77")[0] is ErrorCode.NONE
    assert alter(cluster, "", "producer.id.expiration.ms", "5000")[0] is ErrorCode.NONE
    cluster.until(lambda: logs.cleaner.settings.cleaner_backoff_ms == 77)
    cluster.until(lambda: logs.settings.producer_id_expiration_ms == 5000)
    assert cluster.broker(2).logs.cleaner.settings.cleaner_backoff_ms == 15_000


def test_a_key_that_needs_a_restart_is_refused_and_shown_as_read_only(
    cluster: Cluster,
) -> None:
    code, told = alter(cluster, "", "remote.log.reader.threads", "3")
    assert code is ErrorCode.INVALID_REQUEST and "no tiered storage" in told
    resource = DescribeConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configuration_keys=[
            "remote.log.reader.threads",
            "num.replica.fetchers",
            "num.io.threads",
        ],
    )
    answer = cluster.ask(DescribeConfigsRequest(resources=[resource], include_documentation=True))
    shown = {c.name: c.read_only for c in answer.results[0].configs}
    assert shown == {
        "num.io.threads": False, "num.replica.fetchers": False, "remote.log.reader.threads": True,
    }  # fmt: skip
    assert all(c.documentation and c.config_type for c in answer.results[0].configs)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("ssl.keystore.location", "/x", "/x"),
        ("listener.name.internal.ssl.truststore.type", "PEM", "PEM"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-256,PLAIN", "SCRAM-SHA-256,PLAIN"),
        ("ssl.key.password", "secret", None),
        ("listener.name.internal.plain.sasl.jaas.config", "secret", None),
    ],
)
def test_keys_of_tls_and_sasl_are_kept_though_nothing_uses_them(
    cluster: Cluster, key: str, value: str, shown: str | None
) -> None:
    assert alter(cluster, "1", key, value)[0] is ErrorCode.NONE
    image = cluster.broker(1).image
    cluster.until(lambda: image.config(BROKER, "1").get(key) == value)
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name="1", configuration_keys=[key]
    )
    answer = cluster.ask(DescribeConfigsRequest(resources=[resource]))
    (config,) = answer.results[0].configs
    assert (config.value, config.config_source, config.read_only) == (shown, 2, False)
    assert config.is_sensitive is (shown is None)


def test_defaults_of_topics_follow_the_cluster_and_the_broker(cluster: Cluster) -> None:
    def limit(node: int) -> int:
        log = cluster.broker(node).replicas.by_name["t", 0].log
        assert log is not None
        return log.config.max_message_bytes

    assert alter(cluster, "", "message.max.bytes", "4000")[0] is ErrorCode.NONE
    cluster.until(lambda: limit(1) == limit(2) == 4000)
    assert alter(cluster, "2", "message.max.bytes", "5000")[0] is ErrorCode.NONE
    cluster.until(lambda: limit(2) == 5000)
    assert limit(1) == 4000
    assert alter(cluster, "", "message.max.bytes", "-1")[0] is ErrorCode.INVALID_REQUEST


def test_an_invalid_value_keeps_no_other_key_from_holding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller of Apache Kafka commits it unseen."""
    cluster = Cluster(2)
    cluster.create_topic("t", 1, 2)
    monkeypatch.setattr("barnabas.controller.configs.alter_configs.check_values", lambda *_: None)
    for key, value in (
        ("log.segment.bytes", "many"),
        ("leader.replication.throttled.rate", "fast"),
        ("num.replica.fetchers", "-2"),
        ("log.cleaner.backoff.ms", "77"),
    ):
        assert alter(cluster, "", key, value)[0] is ErrorCode.NONE
    cluster.until(lambda: cluster.broker(1).logs.cleaner.settings.cleaner_backoff_ms == 77)
    assert cluster.broker(1).replicas.configs.of("t").log.segment_bytes == 1 << 30
    assert cluster.produce([b"a"]).error_code == 0


def test_a_broker_that_comes_back_is_cordoned_when_it_is_unfenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(3)
    assert alter(cluster, "2", "cordoned.log.dirs", "*")[0] is ErrorCode.NONE
    image, node = cluster.broker(1).image, cluster.sim.nodes[2]
    cluster.until(lambda: image.brokers[2].cordoned)
    node.shut_down()
    cluster.until(lambda: not node.is_up)
    node.start()
    assert node.node is not None
    metadata, held = node.node.metadata, list[Sequence[CommittedBatch]]()
    monkeypatch.setattr(metadata, "on_commit", held.append)
    cluster.until(lambda: cluster.broker(2).lifecycle.broker_epoch > 0)
    cluster.run(50)
    monkeypatch.undo()
    for batches in held:  # they come late
        metadata.on_commit(batches)
    cluster.until(lambda: not image.brokers[2].fenced)
    assert image.brokers[2].cordoned
