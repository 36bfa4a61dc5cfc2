"""The cluster: its problems with their reasons, its nodes, its quorum, and the latest events."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from barnabas.console.cluster_views.cluster_health import as_dict, cluster_view
from barnabas.console.cluster_views.event_feed import moments_of
from barnabas.console.pages.page import Page, PageRequest

NEWEST, LOOKED_AT = 12, 1_000
"""Events on this page; the time line has the others."""
QUIET = ("config", "feature", "partition", "topic")
"""Kinds of event that say nothing of the cluster's health."""


def load(asked: PageRequest) -> Mapping[str, Any]:
    feed = asked.user.events
    view = cluster_view(asked.connected, feed)
    histories = asked.user.histories
    histories.sample(
        {f"node {node.node_id} bytes": node.bytes_held for node in view.nodes if node.directories}
    )
    worth = (event for event in reversed(feed.snapshot()) if event.kind not in QUIET)
    return {
        **as_dict(view),
        "moments": moments_of(islice(worth, LOOKED_AT))[:NEWEST],
        "feed": feed,
        "written": {n.node_id: histories.rates(f"node {n.node_id} bytes") for n in view.nodes},
        "most_leaders": max((node.leaders for node in view.nodes), default=0) or 1,
    }


PAGE = Page("/", "cluster.html", "cluster", load, live_ms=2_000)
