"""Alert rules for Prometheus.

Most rules follow from the column *alarm* of the table: its usual phrases are conditions
(`PHRASES`). Rules that compare metrics are written here. Each rule names the section of
docs/troubleshooting.md that says what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.monitoring.boards.panels import expression
from barnabas.monitoring.metric import Metric, MetricType, parse_rows
from barnabas.monitoring.table import SECTIONS

RUNBOOK = "docs/troubleshooting.md"
CRITICAL, WARNING = "critical", "warning"
PHRASES: Sequence[tuple[str, str, str]] = (
    (r"above 0 for minutes", "{} > 0", "10m"),
    (r"1 for minutes", "{} == 1", "10m"),
    (r"stays above 0\b", "{} > 0", "15m"),
    (r"stays 1", "{} == 1", "15m"),
    (r"above 0", "{} > 0", "2m"),
    (r"below 2,592,000 \(30 days\)", "{} < 2592000", "1h"),
    (r"below 0\.2", "{} < 0.2", "15m"),
    (r"grows(?!\s)", "increase({}[15m]) > 0", "0m"),
    (r"0", "{} == 0", "1m"),
    (r"1", "{} == 1", "1m"),
)
"""The phrases of the column, with their condition and the time for which it has to hold. The first
phrase with which the text begins applies; ``grows`` is only for counters."""
ANCHORS = {
    "The active controller": "partitions",
    "The controller in ZooKeeper mode": "partitions",
    "The session with ZooKeeper": "a-node-does-not-start-or-ends",
    "Coordinators and quotas of a broker": "clients",
    "Replicas and log directories of a broker": "partitions",
    "Requests, and what clients write and read": "clients",
    "Groups and their lag, said by their coordinator": "slow",
    "Listeners with TLS": "a-node-does-not-start-or-ends",
    "The quorum": "a-node-does-not-start-or-ends",
    "The process": "slow",
}
"""The section of the runbook for each section of the table. Sections without one have no rules:
their metrics belong to single partitions, and the sums have rules."""
LAG_SECONDS_MAX = 300


class Alert(NamedTuple):
    """One rule. `holds_for` is a duration as Prometheus writes it."""

    name: str
    expr: str
    holds_for: str
    severity: str
    summary: str
    anchor: str


def alerts() -> list[Alert]:
    """All rules, those of the table first."""
    found = [
        alert
        for title, rows in SECTIONS.items()
        if (anchor := ANCHORS.get(title)) is not None
        for metric in parse_rows(rows)
        if (alert := _of_metric(metric, anchor)) is not None
    ]
    return [*found, *_comparing()]


def _of_metric(metric: Metric, anchor: str) -> Alert | None:
    text = metric.alarm.replace("**", "")
    for phrase, condition, holds_for in PHRASES:
        if re.match(rf"{phrase}(?=$|[:\s])", text):
            if "increase" in condition and metric.type is not MetricType.COUNTER:
                return None
            severity = CRITICAL if metric.alarm.startswith("**") else WARNING
            condition = condition.format(_series(metric))
            summary = f"{metric.name}: {metric.meaning} ({text})"
            return Alert(_name(metric), condition, holds_for, severity, summary, anchor)
    return None


def _series(metric: Metric) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in metric.labels)
    return f"{metric.name}{{{labels}}}" if labels else metric.name


def _name(metric: Metric) -> str:
    """``Barnabas``, and the type and the name of the MBean."""
    text = metric.mbean.replace(":Count", "").replace("PerSec", "").partition("{")[0]
    tags = (
        dict(tag.split("=", 1) for tag in text.partition(":")[2].split(",")) if ":" in text else {}
    )
    named = [value for value in tags.values() if value != "*"] or [text]
    words = [word for part in named for word in re.split(r"[_\W]+", part)]
    words = [word for word in words if word not in ("barnabas", "kafka", "total", "")]
    return "Barnabas" + "".join(word[0].upper() + word[1:] for word in words)


def _comparing() -> Iterator[Alert]:
    directory = "<barnabas.log:type=LogDirectory,name={}Bytes,logDirectory=*>"
    controllers = "<kafka.controller:type=KafkaController,name=ActiveControllerCount>"
    lag = "<kafka_consumergroup_lag_seconds{consumergroup,topic,partition}>"
    yield _comparison(
        "BarnabasNoActiveController",
        f"sum({controllers}) < 1",
        "30s",
        "no node is the active controller: a majority of the controllers is down",
        "a-node-does-not-start-or-ends",
    )
    yield _comparison(
        "BarnabasLagInSeconds",
        f"max by (consumergroup, topic) ({lag}) > {LAG_SECONDS_MAX}",
        "5m",
        "the first record that {{ $labels.consumergroup }} has not committed in"
        " {{ $labels.topic }} is {{ $value }} s old",
        "slow",
        WARNING,
    )
    yield _comparison(
        "BarnabasDiskNearlyFull",
        f"{directory.format('Usable')} / {directory.format('Total')} < 0.1",
        "10m",
        "the volume of {{ $labels.logDirectory }} has less than a tenth left",
        "partitions",
    )
    yield _comparison(
        "BarnabasDescriptorsNearlyUsedUp",
        "<process_open_fds> / <process_max_fds> > 0.8",
        "10m",
        "the process has opened four fifths of the files that it may open",
        "clients",
        WARNING,
    )


def _comparison(
    name: str, text: str, holds_for: str, summary: str, anchor: str, severity: str = CRITICAL
) -> Alert:
    return Alert(name, expression(text), holds_for, severity, summary, anchor)


def rules_text(runbook: str = RUNBOOK) -> str:
    """The file of rules. It is JSON, which is YAML that needs no library. `runbook` is the address of
    docs/troubleshooting.md."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.holds_for,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "runbook_url": f"{runbook}#{alert.anchor}",
            },
        }
        for alert in alerts()
    ]
    return json.dumps({"groups": [{"name": "barnabas", "rules": rules}]}, indent=2) + "\n"
