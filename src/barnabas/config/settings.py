"""A node's plain settings as typed values, grouped by the component that reads them.

Each field holds one key's value; the loader fills it from the typed table. Values that hang on more than
one key (listeners, voters, directories) are in `node`. Durations are milliseconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from barnabas.config.definition import ConfigValue
from barnabas.config.tables.assignors import CONSUMER_ASSIGNORS, short_names


class _Key:
    """Placeholder for a field's key until the class is made."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def _key(name: str) -> Any:
    return _Key(name)


class Settings:
    """A group of fields, filled once from all typed values and never changed. (No dataclass: making
    ten of them takes a tenth of a node's start.)"""

    KEYS: ClassVar[dict[str, str]] = {}
    """Field to key."""

    def __init_subclass__(cls) -> None:
        cls.KEYS = {name: key.name for name, key in vars(cls).items() if isinstance(key, _Key)}

    def __init__(self, values: Mapping[str, ConfigValue]) -> None:
        self.__dict__.update({name: values[key] for name, key in self.KEYS.items()})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} does not change")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({inner})"


class QuorumSettings(Settings):
    """The metadata quorum's timers and limits (KIP-595)."""

    election_timeout_ms: int = _key("controller.quorum.election.timeout.ms")
    fetch_timeout_ms: int = _key("controller.quorum.fetch.timeout.ms")
    election_backoff_ms_max: int = _key("controller.quorum.election.backoff.max.ms")
    append_linger_ms: int = _key("controller.quorum.append.linger.ms")
    request_timeout_ms: int = _key("controller.quorum.request.timeout.ms")
    retry_backoff_ms: int = _key("controller.quorum.retry.backoff.ms")
    auto_join: bool = _key("controller.quorum.auto.join.enable")
    fetch_bytes_max: int = _key("controller.quorum.fetch.max.bytes")
    fetch_snapshot_bytes_max: int = _key("controller.quorum.fetch.snapshot.max.bytes")


class MetadataLogSettings(Settings):
    """The log of ``__cluster_metadata`` and its snapshots (KIP-630)."""

    segment_bytes: int = _key("metadata.log.segment.bytes")
    segment_ms: int = _key("metadata.log.segment.ms")
    retention_bytes: int = _key("metadata.max.retention.bytes")
    retention_ms: int = _key("metadata.max.retention.ms")
    bytes_between_snapshots: int = _key("metadata.log.max.record.bytes.between.snapshots")
    snapshot_interval_ms_max: int = _key("metadata.log.max.snapshot.interval.ms")
    idle_interval_ms_max: int = _key("metadata.max.idle.interval.ms")
    batch_bytes_max: int = _key("internal.metadata.max.batch.size.in.bytes")


class ControllerSettings(Settings):
    """The settings by which the active controller decides."""

    session_timeout_ms: int = _key("broker.session.timeout.ms")
    leader_rebalance: bool = _key("auto.leader.rebalance.enable")
    imbalance_check_interval_seconds: int = _key("leader.imbalance.check.interval.seconds")
    imbalance_percentage: int = _key("leader.imbalance.per.broker.percentage")
    unclean_election_interval_ms: int = _key("unclean.leader.election.interval.ms")
    num_partitions: int = _key("num.partitions")
    default_replication_factor: int = _key("default.replication.factor")
    min_insync_replicas: int = _key("min.insync.replicas")
    unclean_leader_election: bool = _key("unclean.leader.election.enable")
    delete_topics: bool = _key("delete.topic.enable")


class BrokerSettings(Settings):
    """Registration, heartbeats and requests of a broker."""

    heartbeat_interval_ms: int = _key("broker.heartbeat.interval.ms")
    session_timeout_ms: int = _key("broker.session.timeout.ms")
    registration_timeout_ms: int = _key("initial.broker.registration.timeout.ms")
    controlled_shutdown: bool = _key("controlled.shutdown.enable")
    request_timeout_ms: int = _key("request.timeout.ms")
    auto_create_topics: bool = _key("auto.create.topics.enable")
    num_partitions: int = _key("num.partitions")
    default_replication_factor: int = _key("default.replication.factor")
    message_bytes_max: int = _key("message.max.bytes")
    fetch_bytes_max: int = _key("fetch.max.bytes")
    fetch_sessions_max: int = _key("max.incremental.fetch.session.cache.slots")
    request_partitions_max: int = _key("max.request.partition.size.limit")
    log_dir_failure_timeout_ms: int = _key("log.dir.failure.timeout.ms")
    telemetry_bytes_max: int = _key("telemetry.max.bytes")


class ReplicationSettings(Settings):
    """Followers and ISR."""

    lag_time_ms_max: int = _key("replica.lag.time.max.ms")
    fetch_bytes_max: int = _key("replica.fetch.max.bytes")
    fetch_response_bytes_max: int = _key("replica.fetch.response.max.bytes")
    fetch_wait_ms_max: int = _key("replica.fetch.wait.max.ms")
    fetch_bytes_min: int = _key("replica.fetch.min.bytes")
    fetch_backoff_ms: int = _key("replica.fetch.backoff.ms")
    socket_timeout_ms: int = _key("replica.socket.timeout.ms")
    fetchers: int = _key("num.replica.fetchers")
    selector: str | None = _key("replica.selector.class")
    high_watermark_checkpoint_interval_ms: int = _key(
        "replica.high.watermark.checkpoint.interval.ms"
    )


class LogManagerSettings(Settings):
    """The settings of all logs of a node; those of one topic are in `topic`."""

    retention_check_interval_ms: int = _key("log.retention.check.interval.ms")
    flush_check_interval_ms: int = _key("log.flush.scheduler.interval.ms")
    recovery_point_checkpoint_interval_ms: int = _key("log.flush.offset.checkpoint.interval.ms")
    start_offset_checkpoint_interval_ms: int = _key("log.flush.start.offset.checkpoint.interval.ms")
    recovery_threads: int = _key("num.recovery.threads.per.data.dir")
    initial_task_delay_ms: int = _key("log.initial.task.delay.ms")
    producer_id_expiration_ms: int = _key("producer.id.expiration.ms")
    producer_id_check_interval_ms: int = _key("producer.id.expiration.check.interval.ms")
    cleaner: bool = _key("log.cleaner.enable")
    cleaner_threads: int = _key("log.cleaner.threads")
    cleaner_dedupe_bytes: int = _key("log.cleaner.dedupe.buffer.size")
    cleaner_io_bytes: int = _key("log.cleaner.io.buffer.size")
    cleaner_load_factor: float = _key("log.cleaner.io.buffer.load.factor")
    cleaner_backoff_ms: int = _key("log.cleaner.backoff.ms")
    cleaner_bytes_per_second_max: float = _key("log.cleaner.io.max.bytes.per.second")


class SocketSettings(Settings):
    """Connections."""

    request_bytes_max: int = _key("socket.request.max.bytes")
    send_buffer_bytes: int = _key("socket.send.buffer.bytes")
    receive_buffer_bytes: int = _key("socket.receive.buffer.bytes")
    listen_backlog: int = _key("socket.listen.backlog.size")
    connections_idle_ms_max: int = _key("connections.max.idle.ms")
    queued_requests_max: int = _key("queued.max.requests")
    queued_bytes_max: int = _key("queued.max.request.bytes")
    setup_timeout_ms: int = _key("socket.connection.setup.timeout.ms")
    setup_timeout_ms_max: int = _key("socket.connection.setup.timeout.max.ms")


class OffsetsSettings(Settings):
    """``__consumer_offsets`` and committed offsets."""

    topic_partitions: int = _key("offsets.topic.num.partitions")
    topic_replication_factor: int = _key("offsets.topic.replication.factor")
    topic_min_isr: int = _key("offsets.topic.min.isr")
    topic_segment_bytes: int = _key("offsets.topic.segment.bytes")
    topic_compression: int = _key("offsets.topic.compression.codec")
    commit_timeout_ms: int = _key("offsets.commit.timeout.ms")
    load_bytes: int = _key("offsets.load.buffer.size")
    retention_minutes: int = _key("offsets.retention.minutes")
    retention_check_interval_ms: int = _key("offsets.retention.check.interval.ms")
    metadata_bytes_max: int = _key("offset.metadata.max.bytes")


class GroupSettings(Settings):
    """Group coordinators: classic groups, and the protocols on offer. What one consumer group has of
    its own is in `group`."""

    protocols: list[str] = _key("group.coordinator.rebalance.protocols")
    append_linger_ms: int = _key("group.coordinator.append.linger.ms")
    session_timeout_ms_min: int = _key("group.min.session.timeout.ms")
    session_timeout_ms_max: int = _key("group.max.session.timeout.ms")
    initial_rebalance_delay_ms: int = _key("group.initial.rebalance.delay.ms")
    size_max: int = _key("group.max.size")
    consumer_size_max: int = _key("group.consumer.max.size")
    consumer_assignors: list[str] = _key("group.consumer.assignors")
    consumer_migration_policy: str = _key("group.consumer.migration.policy")
    share_size_max: int = _key("group.share.max.size")
    streams_size_max: int = _key("group.streams.max.size")
    share_initialize_retry_interval_ms: int = _key("group.share.initialize.retry.interval.ms")
    consumer_regex_refresh_interval_ms: int = _key("group.consumer.regex.refresh.interval.ms")

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of that protocol joins."""
        return self.consumer_migration_policy.lower() in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group becomes a classic one when its last member of that protocol leaves."""
        return self.consumer_migration_policy.lower() in ("downgrade", "bidirectional")

    def assignor_names(self) -> list[str]:
        """The server-side assignors on offer, the default first."""
        return short_names(CONSUMER_ASSIGNORS, self.consumer_assignors)


class ShareCoordinatorSettings(Settings):
    """``__share_group_state`` and its coordinators."""

    topic_partitions: int = _key("share.coordinator.state.topic.num.partitions")
    topic_replication_factor: int = _key("share.coordinator.state.topic.replication.factor")
    topic_min_isr: int = _key("share.coordinator.state.topic.min.isr")
    topic_segment_bytes: int = _key("share.coordinator.state.topic.segment.bytes")
    topic_compression: int = _key("share.coordinator.state.topic.compression.codec")
    load_bytes: int = _key("share.coordinator.load.buffer.size")
    write_timeout_ms: int = _key("share.coordinator.write.timeout.ms")
    updates_per_snapshot: int = _key("share.coordinator.snapshot.update.records.per.snapshot")
    prune_interval_ms: int = _key("share.coordinator.state.topic.prune.interval.ms")
    cold_interval_ms: int = _key("share.coordinator.cold.partition.snapshot.interval.ms")


class TransactionSettings(Settings):
    """``__transaction_state`` and transactions."""

    topic_partitions: int = _key("transaction.state.log.num.partitions")
    topic_replication_factor: int = _key("transaction.state.log.replication.factor")
    topic_min_isr: int = _key("transaction.state.log.min.isr")
    topic_segment_bytes: int = _key("transaction.state.log.segment.bytes")
    load_bytes: int = _key("transaction.state.log.load.buffer.size")
    timeout_ms_max: int = _key("transaction.max.timeout.ms")
    transactional_id_expiration_ms: int = _key("transactional.id.expiration.ms")
    abort_check_interval_ms: int = _key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    )
    expire_check_interval_ms: int = _key(
        "transaction.remove.expired.transaction.cleanup.interval.ms"
    )
    partition_verification: bool = _key("transaction.partition.verification.enable")
    two_phase_commit: bool = _key("transaction.two.phase.commit.enable")
    retry_pause_ms: int = _key("add.partitions.to.txn.retry.backoff.ms")
    retry_total_ms: int = _key("add.partitions.to.txn.retry.backoff.max.ms")
