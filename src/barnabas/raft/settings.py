"""The settings that one replica of the quorum receives before it starts.

Everything here is plain data, so that a program without a broker's properties can use
:mod:`barnabas.raft` too; :func:`settings_from_node` derives it from a node's configuration.
Durations are milliseconds, sizes bytes. Source: KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.config.meta_properties import MetaProperties
from barnabas.config.node import NodeConfig
from barnabas.types import Endpoint, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """Identity, peers, timers and limits of one replica."""

    cluster_id: str
    node_id: int
    directory_id: Uuid
    can_vote: bool
    """Whether this node may stand for election and be a voter (a controller). A plain broker is
    an observer always."""
    listeners: Mapping[str, Endpoint]
    """The addresses at which peers reach this replica, by listener name; the first one is used. Empty for
    brokers."""
    static_voters: Mapping[int, Endpoint]
    """``controller.quorum.voters``; empty where the log says who votes (KIP-853)."""
    bootstrap_servers: tuple[Endpoint, ...] = ()
    """``controller.quorum.bootstrap.servers``: whom to ask for the leader."""
    listener_name: str = "CONTROLLER"
    """The listener by which voters talk to each other."""
    auto_join: bool = False
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_ms_max: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_bytes_max: int = 1024 * 1024
    fetch_snapshot_bytes_max: int = 1024 * 1024
    fetch_wait_ms_max: int = 500
    """How long a leader holds a fetch that finds nothing new."""
    batch_bytes_max: int = 8 * 1024 * 1024
    append_linger_ms: int = 0
    """How long a leader waits for more proposals before it appends the first."""
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 604_800_000
    bytes_between_snapshots: int = 20 * 1024 * 1024
    snapshot_interval_ms_max: int = 3_600_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 604_800_000
    peer_gone_backoff_ms_max: int = 50
    """Upper bound of the random wait between noticing that the leader's process is gone and
    standing for election."""


def settings_from_node(
    config: NodeConfig, meta: MetaProperties, listeners: Mapping[str, Endpoint]
) -> ReplicaSettings:
    """`listeners` are this node's controller listeners with their real ports, as advertised."""
    quorum, log = config.quorum, config.metadata_log
    return ReplicaSettings(
        cluster_id=meta.cluster_id,
        node_id=config.node_id,
        directory_id=meta.directory_id,
        can_vote=config.is_controller,
        listeners=listeners,
        static_voters={voter.node_id: voter.endpoint for voter in config.voters},
        bootstrap_servers=config.bootstrap_controllers,
        listener_name=config.controller_listener_names[0],
        auto_join=quorum.auto_join,
        election_timeout_ms=quorum.election_timeout_ms,
        fetch_timeout_ms=quorum.fetch_timeout_ms,
        election_backoff_ms_max=quorum.election_backoff_ms_max,
        request_timeout_ms=quorum.request_timeout_ms,
        retry_backoff_ms=quorum.retry_backoff_ms,
        fetch_bytes_max=quorum.fetch_bytes_max,
        fetch_snapshot_bytes_max=quorum.fetch_snapshot_bytes_max,
        batch_bytes_max=log.batch_bytes_max,
        append_linger_ms=quorum.append_linger_ms,
        segment_bytes=log.segment_bytes,
        segment_ms=log.segment_ms,
        bytes_between_snapshots=log.bytes_between_snapshots,
        snapshot_interval_ms_max=log.snapshot_interval_ms_max,
        retention_bytes=log.retention_bytes,
        retention_ms=log.retention_ms,
    )
