"""Records of a topic: from an offset, a time or an end on, filtered, and live at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.console.cluster_views.record_search import (
    BEGINS,
    FORMATS,
    RecordFilter,
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
    if form not in FORMATS:
        raise ValueError(f"values are shown as {', '.join(FORMATS)}, not {form!r}")
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
        found = search(connected, positions, ends, wanted, count, form, newest=newest)
    return {
        "topic": name, "records": found.records, "scanned": found.scanned, "stopped": found.stopped,
        "begin": begin, "at": at, "n": count, "form": form, "partition": only, "filter": wanted,
        "begins": BEGINS, "forms": FORMATS, "indexes": sorted(view.partitions),
        "command_words": _command(name, begin, at, only, count),
    }  # fmt: skip


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
