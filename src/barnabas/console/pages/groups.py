"""The groups of the cluster, and one group: its members, the partitions of each, and its lag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.cli.measures.group_lag import assigned_to, progress
from barnabas.console.cluster_views.assignment_picture import assignment_picture, colour_of
from barnabas.console.pages.page import Page, PageRequest
from barnabas.types import TopicPartition

ROWS = 200
LAGS = 500
"""Partitions of a group whose lag is kept over time."""


def load(asked: PageRequest) -> Mapping[str, Any]:
    text, state = asked.text("q"), asked.text("state")
    first = asked.number("first", 0)
    connected = asked.connected
    groups = connected.call(connected.admin.list_groups())
    states = sorted({group.state for group in groups})
    found = [
        group
        for group in groups
        if text.lower() in group.group_id.lower() and (not state or group.state == state)
    ]
    return {
        "groups": found[first : first + ROWS],
        "found": len(found),
        "first": first,
        "step": ROWS,
        "q": text,
        "state": state,
        "states": states,
    }


def load_one(asked: PageRequest) -> Mapping[str, Any]:
    name = asked.needed("id")
    connected, histories = asked.connected, asked.user.histories
    described = connected.call(connected.admin.describe_group(name))
    rows = progress(connected, described)
    total = sum(row["lag"] for row in rows if row["lag"] is not None)
    lags = {f"group {name} {row['topic']}-{row['partition']}": row["lag"] for row in rows[:LAGS]}
    known = {series: lag for series, lag in lags.items() if lag is not None}
    histories.gauge({f"group {name} lag": total, **known})
    members = [(member, assigned_to(described, member)) for member in described.members]
    partitions = [TopicPartition(row["topic"], row["partition"]) for row in rows]
    return {
        "group": described,
        "rows": rows,
        "total": total,
        "lags": histories.values(f"group {name} lag"),
        "most": max((row["lag"] or 0 for row in rows), default=0) or 1,
        "histories": {series: histories.values(series) for series in lags},
        "members": members,
        "pictures": assignment_picture(partitions, members),
        "colours": [colour_of(index) for index in range(len(members))],
    }


PAGE = Page("/groups", "groups.html", "groups", load, live_ms=4_000)
ONE = Page("/group", "group.html", "groups", load_one, live_ms=2_000)
