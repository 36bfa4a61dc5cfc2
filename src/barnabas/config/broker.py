"""The keys of a node (Kafka calls them broker configs), as one table, and their synonyms.

Source: ``KafkaConfig.configDef()`` and ``DynamicBrokerConfig`` of Apache Kafka 4.4.0.
"""

from __future__ import annotations

from barnabas.config.definition import ConfigDef, ConfigKey, UpdateMode, parse_table
from barnabas.config.nearest import nearest
from barnabas.config.tables import (
    broker_groups,
    broker_log,
    broker_metrics,
    broker_quorum,
    broker_remote,
    broker_replication,
    broker_security,
    broker_server,
    broker_transactions,
    quota,
)

_TABLES = (
    broker_server.KEYS,
    broker_replication.KEYS,
    broker_log.KEYS,
    broker_quorum.KEYS,
    broker_groups.KEYS,
    broker_transactions.KEYS,
    broker_metrics.KEYS,
    broker_security.KEYS,
    broker_remote.KEYS,
)

BROKER = ConfigDef([key for table in _TABLES for key in parse_table(table)])
"""Keys that a properties file may have."""

BROKER_THROTTLES = ConfigDef(parse_table(quota.BROKER))
"""Keys that exist only as dynamic configuration of a broker (KIP-73)."""

_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
_SYNONYMS = {name: family for family in _FAMILIES for name in family}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The keys with the same meaning as `name`, in order of precedence; `name` is among them."""
    return _SYNONYMS.get(name, (name,))


def broker_key(name: str) -> ConfigKey | None:
    """The key for `name`, which may carry a prefix ``listener.name.<listener>.`` (KIP-103)."""
    plain = strip_listener_prefix(name)
    return BROKER.keys.get(plain) or BROKER_THROTTLES.keys.get(plain)


def nearest_key(name: str) -> str | None:
    """The key with the name most similar to `name`; None if none is similar."""
    return nearest(name, [*BROKER.keys, *BROKER_THROTTLES.keys])


def broker_id(name: str) -> int | None:
    """A resource's name as a broker id; None if it is not a number of 32 bits."""
    digits = name[1:] if name[:1] in ("-", "+") else name
    if not (digits.isascii() and digits.isdigit() and len(digits) < 24):
        return None
    return number if -(1 << 31) <= (number := int(name)) < 1 << 31 else None


_OF_MECHANISMS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Keys that a listener may have once per SASL mechanism, with the mechanism's name as prefix."""


def strip_listener_prefix(name: str) -> str:
    """`name` without ``listener.name.<listener>.`` and, behind that, a SASL mechanism."""
    if not name.startswith("listener.name."):
        return name
    plain = name[len("listener.name.") :].partition(".")[2] or name
    mechanism, _, key = plain.partition(".")
    return key if mechanism and key in _OF_MECHANISMS else plain


_FIXED_HERE = (
    ("listeners", "listeners are opened at the start"),
    ("listener.security.protocol.map", "listeners are opened at the start"),
    ("principal.builder.class", "there are no plug-ins"),
    ("config.providers", "providers are those of the node's own file"),
    ("metric.reporters", "there are no plug-ins"),
    ("remote.", "there is no tiered storage"),
    ("log.local.retention.", "there is no tiered storage"),
    ("follower.fetch.last.tiered.offset.enable", "there is no tiered storage"),
    ("num.recovery.threads.per.data.dir", "logs are recovered at the start only"),
)
"""Keys, or prefixes of keys, that are dynamic in Apache Kafka and need a restart here, with the reason.
Changes of TLS stores (`ssl.keystore.*`, `ssl.truststore.*`) take effect at once. Other keys of TLS and SASL
can be changed and take effect at the next start."""


def why_fixed(name: str) -> str | None:
    """Why a key that is dynamic in Apache Kafka needs a restart here; None if it does not."""
    plain = strip_listener_prefix(name)
    for start, reason in _FIXED_HERE:
        if plain == start or (start.endswith(".") and plain.startswith(start)):
            return reason
    return None


def may_update(name: str, *, cluster_wide: bool) -> bool:
    """Whether `name` may be changed while brokers run, for one broker or as the default of all."""
    key = broker_key(name)
    if key is None or why_fixed(name) is not None:
        return False
    if cluster_wide:
        return key.mode is UpdateMode.CLUSTER_WIDE
    return key.mode is not UpdateMode.READ_ONLY
