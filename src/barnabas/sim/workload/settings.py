"""Settings changed in rarer ways: lists that grow and shrink, and all of one resource at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client.admin import BROKER, TOPIC
from barnabas.client.client import raise_for
from barnabas.wire.messages import alter_configs_request as legacy
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from barnabas.sim.workload.operator import Operator

APPEND, SUBTRACT = 2, 3
STRICT_TOPIC = "events"
"""Whose promises rest on no setting of its own."""


async def change_lists(o: Operator) -> None:
    """Adds replicas to the list of throttled ones, and removes them; it matters where a rate is set."""
    topic, partition = o.any_partition()
    broker = o.rng.choice(list(o.workload.cluster.topology.broker_ids))
    side, operation = o.rng.choice(["leader", "follower"]), o.rng.choice([APPEND, SUBTRACT])
    config = AlterableConfig(
        name=f"{side}.replication.throttled.replicas",
        config_operation=operation,
        value=f"{partition}:{broker}",
    )
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
    await o.client.ask_any(lambda: IncrementalAlterConfigsRequest(resources=[resource]), _check)


async def replace_settings(o: Operator) -> None:
    """Replace the settings: those that are not named go."""
    kind, name, key, values = o.rng.choice(
        [
            (TOPIC, STRICT_TOPIC, "max.message.bytes", ["900000", None]),
            (BROKER, "", "message.max.bytes", ["900000", None]),
        ]
    )
    value = o.rng.choice(values)
    configs = [] if value is None else [legacy.AlterableConfig(name=key, value=value)]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    await o.client.ask_any(lambda: legacy.AlterConfigsRequest(resources=[resource]), _check)


def _check(response: Any) -> None:
    for result in response.responses:
        raise_for(result.error_code, result.error_message)


SETTINGS: Mapping[str, Callable[[Operator], Awaitable[None]]] = {
    "changes lists": change_lists,
    "replaces settings": replace_settings,
}
