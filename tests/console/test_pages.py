"""The console in a real browser: its pages, its keys, and a broker killed while one watches."""

from __future__ import annotations

import pytest

from barnabas.testing.cluster import Cluster
from tests.console.conftest import Page

PAGES = {"/": "Brokers", "/events": "What happened, and why"}
"""Addresses, and something that each shows."""


@pytest.mark.parametrize("path", sorted(PAGES))
@pytest.mark.parametrize("width", [1280, 390])
def test_each_page_is_shown_without_an_error_in_a_wide_and_a_narrow_window(
    page: Page, path: str, width: int
) -> None:
    page.resize(width)
    page.go(path)
    page.wait_for(PAGES[path])
    assert "cannot be shown" not in page.text
    assert page.is_within_its_width()


def test_keys_lead_from_page_to_page(page: Page) -> None:
    page.resize(1280)
    page.go("/")
    page.press("g", "e")
    page.wait_for("What happened, and why")
    page.press("/")
    page.press("flights-0")
    assert page.find("[data-filter]").get_property("value") == "flights-0"


def test_the_theme_turns_by_a_key_and_stays(page: Page) -> None:
    page.go("/")
    page.press("d")
    chosen = page.find("html").get_attribute("data-theme")
    assert chosen in ("dark", "light")
    page.go("/events")
    assert page.find("html").get_attribute("data-theme") == chosen


def test_a_broker_killed_while_one_watches_appears_with_the_reason(
    page: Page, cluster: Cluster
) -> None:
    page.go("/")
    page.wait_for("Nothing is wrong")
    victim = cluster.node_ids[-1]
    cluster.kill(victim)
    try:
        page.wait_for(f"Broker {victim} is fenced")
        page.wait_for(f"broker {victim} is gone")
    finally:
        cluster.restart(victim)
    page.wait_for("Nothing is wrong", timeout_s=40)
