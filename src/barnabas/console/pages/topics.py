"""The topics of the cluster, filtered by name and state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.cli.commands.topics import state_of
from barnabas.console.cluster_views.topic_views import STATES, topic_rows
from barnabas.console.pages.page import Page, PageRequest

ROWS = 100


def load(asked: PageRequest) -> Mapping[str, Any]:
    name, state = asked.text("q"), asked.text("state")
    internal = asked.text("internal") == "1"
    first = asked.number("first", 0)
    views = [
        view
        for view in asked.connected.topics()
        if name.lower() in view.name.lower()
        and (internal or not view.internal or state)
        and (not state or state_of(view) == state)
    ]
    return {
        "rows": topic_rows(asked.connected, views[first : first + ROWS], asked.user.histories),
        "found": len(views),
        "first": first,
        "step": ROWS,
        "q": name,
        "state": state,
        "internal": internal,
        "states": STATES,
    }


PAGE = Page("/topics", "topics.html", "topics", load, live_ms=3_000)
