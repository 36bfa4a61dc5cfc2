"""What one partition's log is told: Kafka's topic configuration, typed. Durations ms, sizes bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Defaults are Kafka 4.3's."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    delete: bool = True
    compact: bool = False
    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = (1 << 63) - 1
    message_timestamp_after_max_ms: int = 3_600_000
    flush_messages: int = (1 << 63) - 1
    flush_ms: int = (1 << 63) - 1
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
    delete_retention_ms: int = 86_400_000
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    producer_id_expiration_ms: int = 86_400_000

    @classmethod
    def from_topic_config(cls, values: Mapping[str, Any]) -> LogConfig:
        """From typed topic configuration (``segment.bytes`` and so on); the rest are defaults."""
        given: dict[str, Any] = {}
        for field in fields(cls):
            value = values.get(field.name.replace("_", "."))
            if value is not None:
                given[field.name] = value
        policy = values.get("cleanup.policy")
        if policy is not None:
            given["delete"], given["compact"] = "delete" in policy, "compact" in policy
        return cls(**given)
