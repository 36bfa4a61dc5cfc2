"""Pipelines: the queries on Spark that commit to this cluster, with their rate, lag and last commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.console.cluster_views.pipeline_views import query_rows
from barnabas.console.pages.page import Page, PageRequest


def load(asked: PageRequest) -> Mapping[str, Any]:
    text = asked.text("q")
    rows, found = query_rows(asked.connected, asked.user.histories, text)
    return {
        "rows": rows,
        "found": found,
        "q": text,
        "most": max((row.lag or 0 for row in rows), default=0) or 1,
    }


PAGE = Page("/pipelines", "pipelines.html", "pipelines", load, live_ms=3_000)
