"""The groups of the cluster, and one group: its members, the partitions of each, and its lag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.cli.measures.group_lag import add_ages, assigned_to, progress_of
from barnabas.console.cluster_views.assignment_picture import assignment_picture, colour_of
from barnabas.console.pages.page import Page, PageRequest
from barnabas.types import TopicPartition

ROWS = 200
LAGS = 500
"""Partitions of a group that a page shows; their lag is kept over time, and their first records are read."""
PICTURED = 2_000
"""Partitions in the pictures of a group's assignment."""


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
    name, first = asked.needed("id"), asked.number("first", 0)
    connected, histories = asked.connected, asked.user.histories
    described = connected.call(connected.admin.describe_group(name))
    (found,) = progress_of(connected, [described], ages=False)
    if found.error is not None:
        raise found.error
    every, rows = found.rows, found.rows[first : first + LAGS]
    add_ages(connected, rows)
    lags = {f"group {name} {row.topic}-{row.partition}": row.lag for row in rows}
    known = {series: lag for series, lag in lags.items() if lag is not None}
    histories.gauge({f"group {name} lag": found.lag, **known})
    members = [(member, assigned_to(described, member)) for member in described.members]
    partitions = [TopicPartition(row.topic, row.partition) for row in every[:PICTURED]]
    return {
        "group": described,
        "rows": rows,
        "count": len(every),
        "first": first,
        "step": LAGS,
        "behind_s": found.seconds,
        "total": found.lag,
        "lags": histories.values(f"group {name} lag"),
        "most": max((row.lag or 0 for row in every), default=0) or 1,
        "histories": {series: histories.values(series) for series in lags},
        "members": members,
        "pictures": assignment_picture(partitions, members),
        "colours": [colour_of(index) for index in range(len(members))],
    }


PAGE = Page("/groups", "groups.html", "groups", load, live_ms=4_000)
ONE = Page("/group", "group.html", "groups", load_one, live_ms=2_000)
