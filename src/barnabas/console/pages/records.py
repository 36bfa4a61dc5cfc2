"""Records of a topic: from an offset, a time or an end on, filtered, and live at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.cli.records.record_filter import RecordFilter
from barnabas.cli.records.registered_values import RegisteredValues
from barnabas.console.cluster_views.record_search import (
    BEGINS,
    FORMATS,
    REGISTRY,
    SearchResult,
    begins,
    readable,
    search,
)
from barnabas.console.pages.page import Page, PageRequest

COUNT, COUNT_MAX = 50, 500


def load(asked: PageRequest) -> Mapping[str, Any]:
    name = asked.needed("topic")
    begin, at = asked.text("from", "latest"), asked.text("at")
    count = min(asked.number("n", COUNT, 1), COUNT_MAX)
    form = asked.text("as", "auto")
    registry = _registry(asked)
    forms = FORMATS if registry is None else (*FORMATS, REGISTRY)
    if form not in forms:
        raise ValueError(f"values are shown as {', '.join(forms)}, not {form!r}")
    only = asked.number("partition", -1)
    wanted = RecordFilter(asked.text("key"), asked.text("header"), asked.text("path"))
    connected = asked.connected
    (view,) = connected.call(connected.admin.describe_topics([name]))
    partitions = readable(view, [only] if only >= 0 else [])
    found = SearchResult([], 0, "")
    if partitions:
        # A filter leaves records out: at the end of the log more are looked at than are shown.
        back = count if wanted == RecordFilter() else count * 20
        positions, ends = begins(connected, partitions, begin, at, back)
        newest = begin == "latest"
        decode = None if registry is None else registry.text_of
        found = search(
            connected, positions, ends, wanted, count, form, newest=newest, decode=decode
        )
    return {
        "topic": name, "records": found.records, "scanned": found.scanned, "stopped": found.stopped,
        "begin": begin, "at": at, "n": count, "form": form, "partition": only, "filter": wanted,
        "begins": BEGINS, "forms": forms, "indexes": sorted(view.partitions),
        "command_words": _command(name, begin, at, only, count),
    }  # fmt: skip


def _registry(asked: PageRequest) -> RegisteredValues | None:
    settings = asked.settings
    if not settings.schema_registry:
        return None
    return RegisteredValues(settings.schema_registry, *settings.registry_user)


def _command(topic: str, begin: str, at: str, partition: int, count: int) -> list[str]:
    words = ["consume", topic, "--json", "--max-records", str(count)]
    if partition >= 0:
        words += ["--partition", str(partition)]
    if begin == "earliest":
        words.append("--from-beginning")
    elif begin == "offset":
        words += ["--offset", at]
    return words


PAGE = Page("/records", "records.html", "topics", load, live_ms=2_000)
