"""The configuration of one partition's log: Kafka's topic configuration as plain typed values.

Immutable and shared by all partitions with equal values (an idle partition must cost little).
Source: Kafka's ``LogConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from barnabas.config.definition import ConfigValue

FOREVER_MS = 0x7FFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Field names are Kafka's keys with underscores; sizes are bytes, durations milliseconds."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 86_400_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    flush_messages: int = FOREVER_MS
    flush_ms: int = FOREVER_MS
    retention_bytes: int = -1
    retention_ms: int = 7 * 86_400_000
    max_message_bytes: int = (1 << 20) + 12
    max_decompressed_message_bytes: int = 2_147_483_639
    index_interval_bytes: int = 4096
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER_MS
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    preallocate: bool = False
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = FOREVER_MS
    message_timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_topic_config(cls, values: Mapping[str, ConfigValue]) -> LogConfig:
        """From the values of `barnabas.config.topic.topic_values` (typed, every key or some)."""
        chosen: dict[str, object] = {}
        for name, key in _KEYS:
            value = values.get(key)
            if value is not None:
                chosen[name] = tuple(value) if isinstance(value, list) else value
        internal = values.get("internal.segment.bytes")
        if isinstance(internal, int):
            chosen["segment_bytes"] = internal
        return intern_config(cls(**chosen))  # type: ignore[arg-type]

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """When a segment is full by its age: compaction takes full ones only, and has a time to keep to."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


_KEYS = [(field.name, field.name.replace("_", ".")) for field in fields(LogConfig)]
"""Fields, and the topic's keys that they hold."""
_interned: dict[LogConfig, LogConfig] = {}
INTERNED_MAX = 4096


def intern_config(config: LogConfig) -> LogConfig:
    """One object for equal values."""
    if len(_interned) >= INTERNED_MAX:
        _interned.clear()
    return _interned.setdefault(config, config)


DEFAULT_CONFIG = intern_config(LogConfig())
