"""The APIs that a broker's listeners serve, one module each. The role is Broker.

ApiVersions is the connection's own. Administration is the active controller's: those APIs are handed
on in an Envelope (KIP-590).

Source: Kafka's ``KafkaApis``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.broker.controller_client.forwarding import forwarded
from barnabas.broker.handlers import (
    alter_replica_log_dirs,
    delete_groups,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    sync_group,
)
from barnabas.controller.handlers import FORWARDED, describe_acls, describe_user_scram_credentials
from barnabas.raft.handlers import FORWARDED as FORWARDED_TO_QUORUM
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.request import HandlerModule

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

MODULES = cast(
    "tuple[HandlerModule, ...]",
    (
        produce,
        fetch,
        list_offsets,
        metadata,
        offset_for_leader_epoch,
        find_coordinator,
        join_group,
        sync_group,
        heartbeat,
        leave_group,
        offset_commit,
        offset_fetch,
        offset_delete,
        list_groups,
        describe_groups,
        delete_groups,
        init_producer_id,
        delete_records,
        alter_replica_log_dirs,
        describe_acls,
        describe_cluster,
        describe_configs,
        describe_log_dirs,
        describe_producers,
        describe_topic_partitions,
        describe_user_scram_credentials,
        list_config_resources,
        get_telemetry_subscriptions,
        push_telemetry,
    ),
)


def add_to(table: ApiTable, broker: Broker) -> ApiTable:
    """Serve all of them, and what is forwarded, on one listener."""
    for module in MODULES:
        table.add(module, broker)
    for module in FORWARDED + FORWARDED_TO_QUORUM:
        table.add(forwarded(module.API), broker)
    return table
