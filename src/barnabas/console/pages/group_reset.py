"""Moving a group to other offsets: the plan is a page with an address, and a button does what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.cli.plain_text import counted
from barnabas.console.cluster_views.offset_reset import WAYS, execute_reset, plan_reset
from barnabas.console.pages.page import Page, PageRequest
from barnabas.console.rendering import link


def load(asked: PageRequest) -> Mapping[str, Any]:
    name, way = asked.needed("id"), asked.text("way")
    topic, value = asked.text("topic"), asked.text("value")
    plan = plan_reset(asked.connected, name, topic, way, value) if way else None
    return {
        "name": name, "plan": plan, "ways": WAYS, "way": way, "topic": topic, "value": value,
    }  # fmt: skip


def change(asked: PageRequest) -> str:
    """Do what the plan of this address says now; returns where to go then."""
    name = asked.needed("id")
    plan = plan_reset(
        asked.connected, name, asked.text("topic"), asked.text("way"), asked.text("value")
    )
    execute_reset(asked.connected, plan)
    count = len(plan.rows)
    done = f"{counted(count, 'partition')} {'was' if count == 1 else 'were'} moved."
    return link("/group", id=name, done=done)


PAGE = Page("/group/reset", "group-reset.html", "groups", load, change=change)
