"""The APIs that a controller's listener serves, one module each. The role is ControllerRuntime."""

from __future__ import annotations

from types import ModuleType

from barnabas.controller.handlers import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
    unregister_broker,
)

MODULES: tuple[ModuleType, ...] = (
    create_topics,
    delete_topics,
    create_partitions,
    broker_registration,
    broker_heartbeat,
    unregister_broker,
    alter_partition,
    allocate_producer_ids,
    describe_configs,
    incremental_alter_configs,
    alter_configs,
    list_config_resources,
    controller_registration,
    describe_cluster,
)
