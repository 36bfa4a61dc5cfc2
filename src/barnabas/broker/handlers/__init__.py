"""The APIs that a broker's listeners serve, one module each. The role is Broker.

The connection itself answers ApiVersions. The active controller answers administration: those
requests are forwarded in an Envelope (KIP-590).

Source: Kafka's ``KafkaApis``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.broker.controller_client.forwarding import forwarded
from barnabas.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_replica_log_dirs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_delegation_token,
    delete_groups,
    delete_records,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    expire_delegation_token,
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
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    renew_delegation_token,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from barnabas.broker.handlers.late import late
from barnabas.controller.handlers import FORWARDED, describe_acls, describe_user_scram_credentials
from barnabas.raft.handlers import FORWARDED as FORWARDED_TO_QUORUM
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.errors import KafkaError
from barnabas.wire.request import HandlerModule, Parked, RequestContext
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.roles import HasConfig

MODULES = cast(
    "tuple[HandlerModule, ...]",
    (
        produce,
        write_txn_markers,
        txn_offset_commit,
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
        consumer_group_heartbeat,
        consumer_group_describe,
        init_producer_id,
        add_partitions_to_txn,
        add_offsets_to_txn,
        end_txn,
        describe_transactions,
        list_transactions,
        delete_records,
        alter_replica_log_dirs,
        describe_acls,
        describe_client_quotas,
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


SHARES = (
    late("share_group_heartbeat", "group", "read"),
    late("share_group_describe", "group", "describe"),
    late("share_fetch", "group", "read", waits=True),
    late("share_acknowledge", "group", "read"),
    late("initialize_share_group_state", "cluster", "cluster-action"),
    late("read_share_group_state", "cluster", "cluster-action"),
    late("write_share_group_state", "cluster", "cluster-action"),
    late("delete_share_group_state", "cluster", "cluster-action"),
    late("read_share_group_state_summary", "cluster", "cluster-action"),
    late("describe_share_group_offsets", "group", "describe"),
    late("alter_share_group_offsets", "group", "read"),
    late("delete_share_group_offsets", "group", "delete"),
)
"""Share groups (KIP-932), which most nodes never serve."""
STREAMS = (
    late("streams_group_heartbeat", "group", "read"),
    late("streams_group_describe", "group", "describe"),
    late("streams_group_topology_description_update", "group", "read"),
)
"""Streams groups (KIP-1071), which most nodes never serve."""

TOKENS = cast(
    "tuple[HandlerModule, ...]",
    (
        create_delegation_token,
        renew_delegation_token,
        expire_delegation_token,
        describe_delegation_token,
    ),
)
"""Delegation tokens; if ZooKeeper coordinates the cluster, other modules serve the first three."""
FORWARDED_KEYS = frozenset(module.API.key for module in FORWARDED + FORWARDED_TO_QUORUM)
"""The APIs that the active controller authorizes and answers."""


def add_to(table: ApiTable, broker: HasConfig) -> ApiTable:
    """Serve all APIs, those that are forwarded included, on one listener. InitProducerId 6
    (KIP-939) is served if two-phase commit is enabled."""
    for module in MODULES + SHARES + STREAMS + TOKENS:
        table.add(module, broker)
    for module in FORWARDED + FORWARDED_TO_QUORUM:
        table.add(forwarded(module.API), broker)
    if broker.config.transactions.two_phase_commit:
        table.serve_unstable(ApiKey.INIT_PRODUCER_ID)
    return table


_BY_KEY = {module.API.key: module for module in MODULES + SHARES + STREAMS}


def serve_own(request: Message, broker: HasConfig) -> Message | Parked | None:
    """Answer a request that this broker sends to itself, in the newest version, as its inter-broker
    listener would."""
    key = ApiKey(type(request).API_KEY)
    module = _BY_KEY.get(key)
    if module is None:
        raise KeyError(f"this broker does not serve {key.name}")
    ctx = RequestContext(
        api_key=key,
        api_version=API_SCHEMAS[key].max_stable_version,
        listener=broker.config.inter_broker_listener_name,
    )
    try:
        return module.handle(request, ctx, broker)
    except KafkaError as error:
        return module.API.error_response(request, error.code, error.message)
