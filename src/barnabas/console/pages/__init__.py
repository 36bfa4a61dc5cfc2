"""The pages: each module has a `PAGE`, and `PAGES` is all of them."""

from __future__ import annotations

from barnabas.console.pages import (
    cluster,
    configs,
    events,
    group_reset,
    groups,
    moves,
    pipelines,
    produce,
    records,
    security,
    topic,
    topics,
    transactions,
)
from barnabas.console.pages.page import Page

PAGES: tuple[Page, ...] = (
    cluster.PAGE, events.PAGE, topics.PAGE, topic.PAGE, records.PAGE, groups.PAGE, groups.ONE,
    group_reset.PAGE, configs.PAGE, configs.ONE, transactions.PAGE, transactions.ONE, transactions.HANGING,
    transactions.PRODUCERS, transactions.ABORT, moves.PAGE, moves.CANCEL, moves.ELECTION,
    *security.PAGES, pipelines.PAGE, produce.PAGE,
)  # fmt: skip
