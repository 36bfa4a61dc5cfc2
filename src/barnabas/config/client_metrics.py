"""Subscriptions to clients' metrics (KIP-714): their keys, and what may stand in them.

A change is refused as Kafka refuses it: a key that there is not and an interval out of bounds as a
request that makes no sense, what cannot be read as a bad value. Source: Kafka's ClientMetricsConfigs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from barnabas.config.definition import ConfigDef, parse_table
from barnabas.config.nearest import hint
from barnabas.config.tables import client_metrics

SUBSCRIPTION = ConfigDef(parse_table(client_metrics.KEYS))

INTERVAL_MS_MIN = 100
INTERVAL_MS_MAX = 3_600_000

MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The properties of a client that a pattern may name."""


class SubscriptionRefused(ValueError):
    """Says why a subscription is invalid."""


class IllegalPattern(ValueError):
    """A sentence on a pattern of ``match``."""


def check_subscription(values: Mapping[str, str]) -> None:
    """Raises :class:`SubscriptionRefused`, or :class:`IllegalPattern`; what has the wrong type
    a :class:`~barnabas.config.definition.ConfigError`."""
    for name in values:
        if name not in SUBSCRIPTION:
            raise SubscriptionRefused(
                f"Unknown client metrics configuration: {name}{hint(name, SUBSCRIPTION.keys)}"
            )
    typed = {name: SUBSCRIPTION.parse(name, text) for name, text in values.items()}
    interval = typed.get("interval.ms")
    if isinstance(interval, int) and not INTERVAL_MS_MIN <= interval <= INTERVAL_MS_MAX:
        raise SubscriptionRefused(
            f"Invalid value {interval} for interval.ms, interval must be between"
            f" {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
        )
    patterns = typed.get("match")
    for pattern in patterns if isinstance(patterns, list) else ():
        _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    # An equals sign at the end separates nothing, in Java's way to split.
    name, *rest = pattern.rstrip("=").split("=")
    if len(rest) != 1 or name.strip() not in MATCHED:
        raise IllegalPattern(f"Illegal client matching pattern: {pattern}")
    try:
        re.compile(rest[0].strip())
    except (re.error, OverflowError) as error:
        raise IllegalPattern(f"Illegal client matching pattern: {pattern}") from error
