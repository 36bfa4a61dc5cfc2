"""The console in a real browser: its pages, its keys, and a broker killed while one watches."""

from __future__ import annotations

import pytest

from barnabas.host.client import Connected
from barnabas.testing.cluster import Cluster
from tests.console.conftest import Page

PAGES = {
    "/": "Brokers",
    "/events": "What happened, and why",
    "/topics": "flights",
    "/topic?name=flights": "created with replicas",
    "/records?topic=flights&from=earliest": "4 of 4 records",
    "/records?topic=flights&from=earliest&as=hex": "000000",
    "/groups": "billing",
    "/group?id=billing": "records behind",
    "/configs?kind=group": "<script>",
    "/configs?kind=broker&name=1&all=1": "DEFAULT_CONFIG",
    "/config?kind=topic&name=flights&key=retention.ms": "604800000",
    "/transactions": "Find those that hang",
    "/producers?topic=flights&partition=0": "last sequence",
    "/moves": "Log directories",
    "/users": "SCRAM",
    "/pipelines": "last commit",
    "/produce?topic=flights": "Write one record",
    "/acls": "Add an entry",
    "/quotas": "limits",
    "/certificates": "listener",
    "/group/reset?id=billing&way=to-earliest": "--to-earliest --execute",
}
"""Addresses, and something that each shows."""


@pytest.mark.parametrize("path", sorted(PAGES))
def test_each_page_is_shown_without_an_error_in_a_wide_and_a_narrow_window(
    page: Page, path: str
) -> None:
    page.resize(1280)
    page.go(path)
    page.wait_for(PAGES[path])
    assert "cannot be shown" not in page.text
    assert page.is_within_its_width()
    page.resize(390)
    assert page.is_within_its_width()


def test_hostile_values_are_shown_as_text(page: Page) -> None:
    page.go("/records?topic=flights&from=earliest")
    page.wait_for("4 of 4 records")
    assert "<script>document.title='owned'</script>" in page.text
    assert "\\x1b[31m" in page.text or "1b 5b 33" in page.text
    assert page.count("main script") == 0


def test_records_are_filtered_by_a_json_path(page: Page) -> None:
    page.go("/records?topic=flights&from=earliest&path=delay%3D7")
    page.wait_for("1 of 4 records")
    assert '"from": "JFK"' in page.text


def test_a_group_is_moved_after_its_plan_was_shown(page: Page) -> None:
    page.go("/group/reset?id=billing&way=to-latest")
    page.wait_for("+2")
    page.confirm()
    page.wait_for("1 partition was moved.")
    page.go("/group/reset?id=billing&way=to-offset&value=2")
    page.wait_for("-2")
    page.confirm()
    page.wait_for("1 partition was moved.")


def test_a_groups_assignment_is_a_picture(page: Page, connected: Connected) -> None:
    with connected.consumer("readers") as consumer:
        consumer.inner.subscribe(["errands"])
        for _ in range(300):
            consumer.poll(100)
            if len(consumer.inner.assignment) == 3:
                break
        page.go("/group?id=readers")
        page.wait_for("Who reads what")
        assert page.count(".assignment rect.m0") == 3


def test_a_click_across_a_live_update_follows_its_link(page: Page, connected: Connected) -> None:
    page.go("/topics")
    page.wait_for("errands")
    page.count_updates()
    page.hold("main a[href='/topic?name=errands']")
    connected.create_topic("came-while-pressed", partitions=1, replication_factor=1)
    page.wait_for_update(1)
    assert "came-while-pressed" not in page.text
    page.release()
    page.wait_for("errands-0")


def test_a_selection_stays_and_the_update_comes_after_it(page: Page, connected: Connected) -> None:
    page.go("/topics")
    page.wait_for("errands")
    page.count_updates()
    page.browser.execute_script(
        "getSelection().selectAllChildren(document.querySelector('main tbody a'))"
    )
    connected.create_topic("came-while-selected", partitions=1, replication_factor=1)
    page.wait_for_update(1)
    assert "came-while-selected" not in page.text
    page.browser.execute_script("getSelection().removeAllRanges()")
    page.wait_for("came-while-selected")


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


@pytest.mark.interop
@pytest.mark.long
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
