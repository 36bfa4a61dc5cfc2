"""The configuration of one topic: its own values over the broker's over the defaults.

`TOPIC` is the table of a topic's keys; `BROKER_SYNONYMS` says which keys of a broker stand behind each.
A topic's own values come from ConfigRecords, a broker's from its properties and dynamic
configuration. Source: ``LogConfig`` and ``ServerTopicConfigSynonyms`` of Apache Kafka 4.4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.config.broker import BROKER
from barnabas.config.definition import ConfigDef, ConfigError, ConfigValue, parse_table
from barnabas.config.nearest import hint
from barnabas.config.tables import topic

TOPIC = ConfigDef(parse_table(topic.KEYS))

_HOUR = 3_600_000
_MINUTE = 60_000


class Synonym(NamedTuple):
    """A broker's key that gives a topic's default, and the factor that turns its unit into the topic's."""

    name: str
    factor: int = 1


def _log(*suffixes: str) -> dict[str, tuple[Synonym, ...]]:
    return {suffix: (Synonym(f"log.{suffix}"),) for suffix in suffixes}


BROKER_SYNONYMS: dict[str, tuple[Synonym, ...]] = {
    **_log(
        "segment.bytes",
        "retention.bytes",
        "index.interval.bytes",
        "cleanup.policy",
        "preallocate",
        "message.timestamp.type",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "local.retention.ms",
        "local.retention.bytes",
    ),
    **{
        f"remote.copy.lag.{unit}": (Synonym(f"log.remote.copy.lag.{unit}"),)
        for unit in ("ms", "bytes")
    },
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR)),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR)),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE),
        Synonym("log.retention.hours", _HOUR),
    ),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "max.decompressed.message.bytes": (Synonym("max.decompressed.message.bytes"),),
    "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
    "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
    "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
    "min.insync.replicas": (Synonym("min.insync.replicas"),),
    "compression.type": (Synonym("compression.type"),),
    "compression.gzip.level": (Synonym("compression.gzip.level"),),
    "compression.lz4.level": (Synonym("compression.lz4.level"),),
    "compression.zstd.level": (Synonym("compression.zstd.level"),),
}

_IN_ORDER = [(name, BROKER_SYNONYMS[name]) for name in TOPIC.keys if name in BROKER_SYNONYMS]
"""The topic's keys that have synonyms, in the order of their table."""


def topic_defaults(broker: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Typed values of every topic key where the topic sets none.

    `broker` has the broker's configuration as text (properties, then dynamic over it); the strongest
    synonym that it sets wins. Raises :class:`ConfigError`.
    """
    values = TOPIC.defaults()
    for name, synonyms in _IN_ORDER:
        for synonym in synonyms:
            if synonym.name in broker:
                values[name] = _of_broker(synonym, broker)
                break
    return values


def topic_default(name: str, broker: Mapping[str, str]) -> ConfigValue:
    """The value that `topic_defaults` has for one key."""
    for synonym in BROKER_SYNONYMS.get(name, ()):
        if synonym.name in broker:
            return _of_broker(synonym, broker)
    return TOPIC.default(name)


def broker_part(broker: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The part of a broker's configuration that a topic's values depend on, to compare or to remember it
    by."""
    return tuple(
        [
            (synonym.name, broker[synonym.name])
            for _, synonyms in _IN_ORDER
            for synonym in synonyms
            if synonym.name in broker
        ]
    )


def topic_values(
    overrides: Mapping[str, str], broker: Mapping[str, str] | None = None
) -> dict[str, ConfigValue]:
    """Typed values of every topic key: `overrides` over :func:`topic_defaults` of `broker`.

    Names that are no topic keys are left out. Raises :class:`ConfigError`.
    """
    values = topic_defaults(broker or {})
    for name, text in overrides.items():
        if name in TOPIC:
            values[name] = TOPIC.parse(name, text)
    return values


def check_topic_overrides(overrides: Mapping[str, str], broker: Mapping[str, str]) -> None:
    """Refuse what a topic may not be given: unknown keys, bad values, values at odds with another.

    Raises :class:`ConfigError`.
    """
    for name, text in overrides.items():
        if name not in TOPIC:
            raise ConfigError(name, text, f"a topic has no such key{hint(name, TOPIC.keys)}")
    values = topic_values(overrides, broker)
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise ConfigError(
            "min.compaction.lag.ms", least, f"it must not exceed max.compaction.lag.ms ({most})"
        )
    if values["remote.storage.enable"]:
        raise ConfigError("remote.storage.enable", "true", "this cluster has no remote tier")


def _of_broker(synonym: Synonym, broker: Mapping[str, str]) -> ConfigValue:
    """The broker's value, in the topic's unit."""
    value = BROKER.parse(synonym.name, broker[synonym.name])
    if synonym.factor == 1 or not isinstance(value, int):
        return value
    return value if value < 0 else value * synonym.factor
