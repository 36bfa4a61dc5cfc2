"""One topic: its partitions, what happened to them and why, and what is set on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.cli.commands.topics import configs_of, state_of
from barnabas.console.cluster_views.event_feed import moments_of
from barnabas.console.cluster_views.parts import part
from barnabas.console.cluster_views.topic_views import partition_rows
from barnabas.console.pages.page import Page, PageRequest
from barnabas.types import uuid_text

ROWS, EVENTS = 200, 300


def load(asked: PageRequest) -> Mapping[str, Any]:
    name, first = asked.needed("name"), asked.number("first", 0)
    chosen = asked.number("partition", -1)
    connected, feed = asked.connected, asked.user.events
    (view,) = connected.call(connected.admin.describe_topics([name]))
    feed.refresh()
    if chosen >= 0 and chosen not in view.partitions:
        raise ValueError(f"topic {name} has no partition {chosen}")
    indexes = [chosen] if chosen >= 0 else sorted(view.partitions)[first : first + ROWS]
    subjects = {f"{name}-{index}" for index in indexes} | {name, f"topic {name}"}
    story = [event for event in reversed(feed.snapshot()) if event.subject in subjects]
    return {
        "name": name,
        "topic_id": uuid_text(view.topic_id),
        "state": state_of(view),
        "rows": partition_rows(connected, view, indexes, asked.user.histories),
        "count": len(view.partitions),
        "first": first,
        "step": ROWS,
        "partition": chosen,
        "configs": part(lambda: configs_of(connected, name), {}),
        "moments": moments_of(story[:EVENTS])[:40],
        "feed": feed,
    }


PAGE = Page("/topic", "topic.html", "topics", load, live_ms=2_000)
