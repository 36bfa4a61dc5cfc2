"""The APIs that a controller's listener serves, one module each. The role is QuorumController."""

from __future__ import annotations

from typing import cast

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.handlers import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    elect_leaders,
    envelope,
    expire_delegation_token,
    incremental_alter_configs,
    list_config_resources,
    list_partition_reassignments,
    renew_delegation_token,
    unregister_broker,
    unregister_controller,
    update_features,
)
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.request import HandlerModule

FORWARDED = cast(
    "tuple[HandlerModule, ...]",
    (
        create_topics,
        delete_topics,
        create_partitions,
        incremental_alter_configs,
        alter_configs,
        elect_leaders,
        alter_partition_reassignments,
        list_partition_reassignments,
        update_features,
        unregister_broker,
        unregister_controller,
        create_acls,
        delete_acls,
        alter_user_scram_credentials,
        alter_client_quotas,
    ),
)
"""The APIs that clients also reach through any broker, in an Envelope (KIP-590)."""

TOKENS = cast(
    "tuple[HandlerModule, ...]",
    (create_delegation_token, renew_delegation_token, expire_delegation_token),
)
"""Forwarded APIs that brokers refuse to some of their clients themselves."""

MODULES = (
    FORWARDED
    + TOKENS
    + cast(
        "tuple[HandlerModule, ...]",
        (
            broker_registration,
            broker_heartbeat,
            alter_partition,
            allocate_producer_ids,
            assign_replicas_to_dirs,
            describe_configs,
            list_config_resources,
            describe_acls,
            controller_registration,
            describe_cluster,
            describe_user_scram_credentials,
            envelope,
        ),
    )
)


def add_to(table: ApiTable, role: QuorumController) -> ApiTable:
    """Serve all APIs on a controller listener, and the forwarded ones within envelopes."""
    for module in MODULES:
        table.add(module, role)
    for module in FORWARDED + TOKENS:
        if role.forwarded_apis.get(module.API.key) is None:
            role.forwarded_apis.add(module, role)
    return table
