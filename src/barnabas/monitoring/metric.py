"""A metric: its MBean in Kafka's terms, its Prometheus name, its type, and its meaning.

A row of the table has two lines: ``MBean | type``, and below it ``meaning | alarm``. The MBean is written as
``domain:type=TYPE,name=NAME`` with further tags behind; a tag with the value ``*`` is a label with many
values. The name for Prometheus follows from the MBean by the rules that most configurations of the JMX
exporter share: domain, type and name in lower case, joined by underscores; counters end in ``_total``,
``PerSec`` goes, and ``Percent`` has an underscore before it.

Source: the example configurations of Prometheus' JMX exporter and of Strimzi for Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

_JOINED = re.compile("^raft-(channel)?-?metrics$")
"""Types whose words the rules join."""
_OTHER = re.compile(r"[^a-z0-9_]+")


class MetricType(StrEnum):
    """The types of Prometheus' text format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the table."""

    mbean: str
    """The MBean as the table writes it: the key by which a source gives its value."""
    type: MetricType
    meaning: str
    alarm: str
    name: str = field(init=False)
    """The name for Prometheus."""
    labels: tuple[tuple[str, str], ...] = field(init=False)
    """The fixed labels of the MBean."""
    open_labels: tuple[str, ...] = field(init=False)
    """The labels whose values a source gives."""

    def __post_init__(self) -> None:
        name, labels = prometheus_name(self.mbean, is_counter=self.type is MetricType.COUNTER)
        object.__setattr__(self, "name", name)
        fixed = tuple((key, value) for key, value in labels if value != "*")
        object.__setattr__(self, "labels", fixed)
        object.__setattr__(self, "open_labels", tuple(key for key, value in labels if value == "*"))


def prometheus_name(mbean: str, *, is_counter: bool) -> tuple[str, list[tuple[str, str]]]:
    """The name for Prometheus, and the labels: the tags behind ``type`` and ``name``.

    A text without a domain is a name already, and its tags follow in braces (``kafka_brokers``,
    ``kafka_topic_partition_leader{topic,partition}``).
    """
    domain, colon, rest = mbean.partition(":")
    if not colon:
        name, _, inside = mbean.partition("{")
        given = inside.rstrip("}")
        return name, [(label, "*") for label in given.split(",") if label]
    pairs = [tag.partition("=") for tag in rest.split(",")]
    tags = {key: value.removesuffix(":Count") for key, _, value in pairs}
    kind, own = _JOINED.sub(r"raft\1metrics", tags.pop("type")), tags.pop("name", "")
    own = own.removesuffix("PerSec")
    if own.endswith("Percent"):
        own = own.removesuffix("Percent") + "_percent"
    words = [domain, kind, own] if own else [domain, kind]
    name = _OTHER.sub("_", "_".join(words).lower()).strip("_")
    if is_counter and not name.endswith("_total"):
        name += "_total"
    return name, [(key.replace("-", "_"), value) for key, value in tags.items()]


def parse_rows(text: str) -> Iterator[Metric]:
    """The metrics of one section of the table."""
    lines = iter(text.strip().splitlines())
    for line in lines:
        mbean, _, kind = line.partition(" | ")
        meaning, _, alarm = next(lines).partition(" | ")
        yield Metric(mbean.strip(), MetricType(kind.strip()), meaning.strip(), alarm.strip())


def by_mbean(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """The metrics by the key that sources use."""
    return {metric.mbean: metric for metric in metrics}
