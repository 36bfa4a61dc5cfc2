"""The time line: every decision and refusal of the controllers with its reason, filtered by the address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.console.cluster_views.event_feed import moments_of
from barnabas.console.pages.page import Page, PageRequest
from barnabas.metadata.views.cluster_events import KINDS

EVENTS_SHOWN_MAX = 1_000


def load(asked: PageRequest) -> Mapping[str, Any]:
    feed = asked.user.events
    feed.refresh()
    kinds = [kind for kind in asked.query.getlist("kind") if kind]
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise ValueError(f"a kind of event is one of {', '.join(KINDS)}, not {unknown[0]!r}")
    about = asked.text("about")
    found = [
        event
        for event in reversed(feed.snapshot())
        if (not kinds or event.kind in kinds) and _is_about(event, about)
    ]
    return {
        "feed": feed,
        "moments": moments_of(found[:EVENTS_SHOWN_MAX]),
        "shown": min(EVENTS_SHOWN_MAX, len(found)),
        "found": len(found),
        "kinds": KINDS,
        "chosen": kinds,
        "about": about,
        "command_words": _command(kinds, about),
    }


def _is_about(event: Any, about: str) -> bool:
    return about in event.subject or about.lower() in event.reason.lower()


def _command(kinds: list[str], about: str) -> list[str]:
    words = ["cluster", "events"]
    for kind in kinds:
        words += ["--kind", kind]
    return [*words, *(["--about", about] if about else [])]


PAGE = Page("/events", "events.html", "events", load, live_ms=1_500)
