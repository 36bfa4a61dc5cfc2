"""The pages: each module has a `PAGE`, and `PAGES` is all of them."""

from __future__ import annotations

from barnabas.console.pages import cluster, events
from barnabas.console.pages.page import Page

PAGES: tuple[Page, ...] = (cluster.PAGE, events.PAGE)
