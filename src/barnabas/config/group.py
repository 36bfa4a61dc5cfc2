"""The keys of one group, and the limits of a client.

`GROUP` is the table of a group's keys (KIP-848, KIP-932, KIP-1071), `CLIENT_QUOTAS` and `ADDRESS_QUOTAS`
those of quotas (KIP-546, KIP-612). Source: ``GroupConfig`` and ``QuotaConfig`` of Apache Kafka 4.4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from barnabas.config.broker import BROKER
from barnabas.config.definition import ConfigDef, ConfigError, ConfigValue, parse_table
from barnabas.config.nearest import hint
from barnabas.config.tables import group, quota
from barnabas.config.tables.assignors import STREAMS_ASSIGNORS, short_names

GROUP = ConfigDef(parse_table(group.KEYS))
CLIENT_QUOTAS = ConfigDef(parse_table(quota.CLIENT))
ADDRESS_QUOTAS = ConfigDef(parse_table(quota.ADDRESS))
STREAMS_ASSIGNOR = "streams.assignor.name"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_LISTS_BEHIND = {STREAMS_ASSIGNOR: STREAMS_ASSIGNORS}
"""The broker's list whose first entry is a group's value."""


def broker_synonym(name: str) -> str | None:
    """The broker's key behind a group's key; None where there is none."""
    candidate = _LISTS_BEHIND.get(name, f"group.{name}")
    return candidate if candidate in BROKER else None


def broker_text(name: str, broker: Mapping[str, str]) -> str | None:
    """The text of a group's key that has a synonym, at a broker, where the group has none of its own."""
    synonym = broker_synonym(name)
    assert synonym is not None
    text = broker.get(synonym, BROKER[synonym].default)
    if text is None or name not in _LISTS_BEHIND:
        return text
    return _short_names(synonym, text)[0]


def _short_names(key: str, text: str) -> list[str]:
    """The assignors that the value of a broker's key names."""
    return short_names(key, cast("list[str]", BROKER.parse(key, text)))


def group_values(
    overrides: Mapping[str, str], broker: Mapping[str, str] | None = None
) -> dict[str, ConfigValue]:
    """Typed values of every group key: `overrides`, clamped to the broker's minimum and maximum,
    over the broker's own values. Raises :class:`ConfigError`."""
    own = broker or {}
    values: dict[str, ConfigValue] = {}
    for name in GROUP.keys:
        synonym = broker_synonym(name)
        if name in overrides:
            values[name] = _clamped(name, GROUP.parse(name, overrides[name]), own)
        elif name in _LISTS_BEHIND:
            values[name] = GROUP.parse(name, broker_text(name, own))
        elif synonym is not None:
            text = own.get(synonym)
            values[name] = BROKER.default(synonym) if text is None else BROKER.parse(synonym, text)
        else:
            values[name] = GROUP.default(name)
    return values


def check_group_overrides(overrides: Mapping[str, str], broker: Mapping[str, str]) -> None:
    """Refuse unknown keys and values outside the broker's bounds. Raises :class:`ConfigError`."""
    for name, text in overrides.items():
        if name not in GROUP:
            raise ConfigError(name, text, f"a group has no such key{hint(name, GROUP.keys)}")
        value = GROUP.parse(name, text)
        low, high = _bounds(name, broker)
        if isinstance(value, int) and low is not None and value < low:
            raise ConfigError(name, text, f"it must be at least {low}, the broker's minimum")
        if isinstance(value, int) and high is not None and value > high:
            raise ConfigError(name, text, f"it must be at most {high}, the broker's maximum")
    _check_intervals(group_values(overrides, broker))
    _check_assignor(overrides, broker)
    topic = overrides.get(DEAD_LETTER_TOPIC, "")
    if topic.startswith("__"):
        why = "the name of a dead-letter topic does not begin with two underscores"
        raise ConfigError(DEAD_LETTER_TOPIC, topic, why)


def _check_assignor(overrides: Mapping[str, str], broker: Mapping[str, str]) -> None:
    """A streams group's assignor is one of those that the brokers have."""
    given = overrides.get(STREAMS_ASSIGNOR)
    text = broker.get(STREAMS_ASSIGNORS, BROKER[STREAMS_ASSIGNORS].default)
    there = _short_names(STREAMS_ASSIGNORS, text or "")
    if given is not None and given not in there:
        raise ConfigError(
            STREAMS_ASSIGNOR, given, f"it must be a registered assignor: {', '.join(there)}"
        )


def _check_intervals(values: Mapping[str, ConfigValue]) -> None:
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if cast(int, values[session]) <= cast(int, values[heartbeat]):
            raise ConfigError(session, values[session], f"it must be greater than {heartbeat}")


def _clamped(name: str, value: ConfigValue, broker: Mapping[str, str]) -> ConfigValue:
    low, high = _bounds(name, broker)
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if low is not None:
        value = max(value, low)
    return value if high is None else min(value, high)


def _bounds(name: str, broker: Mapping[str, str]) -> tuple[int | None, int | None]:
    kind, _, rest = name.partition(".")
    limits: list[int | None] = []
    for side in ("min", "max"):
        key = f"group.{kind}.{side}.{rest}"
        if key not in BROKER:
            key = f"group.{kind}.{side}.{rest.removeprefix('num.')}"
        value = BROKER.parse(key, broker.get(key, BROKER[key].default)) if key in BROKER else None
        limits.append(value if isinstance(value, int) else None)
    return limits[0], limits[1]
