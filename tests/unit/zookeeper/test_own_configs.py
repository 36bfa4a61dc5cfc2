"""A broker that writes its own dynamic configuration, as under a controller of Apache Kafka 3.9."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.controller.handlers import alter_configs, incremental_alter_configs
from barnabas.metadata.image.image import BROKER, TOPIC
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs_request as legacy
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.zookeeper.broker.own_configs import OwnConfigs
from tests.unit.zookeeper.zookeeper_cluster import ZookeeperCluster

pytestmark = pytest.mark.slow
API = incremental_alter_configs.API
RETENTION = "log.retention.ms"


@pytest.fixture
def cluster() -> Iterator[ZookeeperCluster]:
    made = ZookeeperCluster()
    made.wait_for_controller()
    yield made
    made.world.let_go()


def own(cluster: ZookeeperCluster, broker: int) -> OwnConfigs:
    return OwnConfigs(cluster.nodes[broker].sessions, cluster.nodes[broker].config)


def wanted(broker: int, key: str, value: str, **more: Any) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(
        resource_type=BROKER, resource_name=str(broker), configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], **more)


def ask(cluster: ZookeeperCluster, broker: int, api: Any, *requests: Any) -> list[int]:
    """All at once; their error codes."""
    got: list[Any] = []
    for request in requests:
        own(cluster, broker).handle(api, request).attach(got.append)
    cluster.wait(lambda: len(got) == len(requests), "the answers")
    return [response.responses[0].error_code for response in got]


def config_of(cluster: ZookeeperCluster, broker: int) -> dict[str, str] | None:
    found = cluster.read(f"/config/brokers/{broker}")
    return None if found is None else dict(found["config"])


def test_it_is_written_and_every_broker_reads_it(cluster: ZookeeperCluster) -> None:
    assert ask(cluster, 2, API, wanted(2, RETENTION, "5000000")) == [0]
    assert config_of(cluster, 2) == {RETENTION: "5000000"}
    image = cluster.broker_of(2).image
    cluster.wait(lambda: image.config(BROKER, "2") == {RETENTION: "5000000"}, "it is followed")
    replaced = legacy.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="2",
        configs=[legacy.AlterableConfig(name="background.threads", value="7")],
    )
    request = legacy.AlterConfigsRequest(resources=[replaced])
    assert ask(cluster, 2, alter_configs.API, request) == [0]
    assert config_of(cluster, 2) == {"background.threads": "7"}


def test_two_changes_at_once_are_both_written(cluster: ZookeeperCluster) -> None:
    first, second = wanted(2, RETENTION, "5000000"), wanted(2, "background.threads", "7")
    assert ask(cluster, 2, API, first, second) == [0, 0]
    assert config_of(cluster, 2) == {RETENTION: "5000000", "background.threads": "7"}


def test_a_change_that_is_invalid_or_only_validated_is_not_written(
    cluster: ZookeeperCluster,
) -> None:
    fixed = wanted(2, "log.dirs", "/other")
    assert ask(cluster, 2, API, fixed) == [ErrorCode.INVALID_REQUEST]
    assert ask(cluster, 2, API, wanted(2, RETENTION, "5000000", validate_only=True)) == [0]
    assert config_of(cluster, 2) is None


def test_other_resources_are_the_controllers(cluster: ZookeeperCluster) -> None:
    mine = own(cluster, 2)
    assert mine.concerns(API, wanted(2, RETENTION, "1"))
    assert not mine.concerns(API, wanted(3, RETENTION, "1"))
    topic = AlterConfigsResource(resource_type=TOPIC, resource_name="2", configs=[])
    assert not mine.concerns(API, IncrementalAlterConfigsRequest(resources=[topic]))
