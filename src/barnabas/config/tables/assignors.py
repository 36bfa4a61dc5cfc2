"""The server-side assignors that there are, by the broker's key that names them.

A value is an assignor's short name, or its class in Apache Kafka. Other classes would be plug-ins, and there
are none. No assignor is named twice, so that `SHARE_ASSIGNORS` names exactly one.

Source: ``GroupCoordinatorConfig`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_PACKAGE = "org.apache.kafka.coordinator.group"
CONSUMER_ASSIGNORS = "group.consumer.assignors"
SHARE_ASSIGNORS = "group.share.assignors"
STREAMS_ASSIGNORS = "group.streams.assignors"
ASSIGNORS: Mapping[str, Mapping[str, str]] = {
    CONSUMER_ASSIGNORS: {
        "uniform": f"{_PACKAGE}.assignor.UniformAssignor",
        "range": f"{_PACKAGE}.assignor.RangeAssignor",
    },
    SHARE_ASSIGNORS: {"simple": f"{_PACKAGE}.assignor.SimpleAssignor"},
    STREAMS_ASSIGNORS: {"sticky": f"{_PACKAGE}.streams.assignor.StickyTaskAssignor"},
}
"""Key → short name → class."""


def short_names(key: str, values: Iterable[str]) -> list[str]:
    """`values` of `key` by their short names; a value that names no assignor stays as it is."""
    by_class = {name: short for short, name in ASSIGNORS[key].items()}
    return [by_class.get(value, value) for value in values]
