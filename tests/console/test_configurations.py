"""Configurations in a real browser: a difference is shown, then made; a value that is markup stays text."""

from __future__ import annotations

from tests.console.conftest import Page

KEY = "/config?kind=topic&name=flights&key=retention.ms"
HOSTILE_MATCH = "client_id=<script>document.write(1)</script>"


def test_a_key_is_changed_after_its_difference_was_shown(page: Page) -> None:
    page.go(f"{KEY}&way=set&value=1000000")
    page.wait_for("- retention.ms=604800000\n+ retention.ms=1000000")
    assert "barnabas configs alter --topic flights --set retention.ms=1000000" in page.text
    page.confirm()
    page.wait_for("retention.ms was changed.")
    page.wait_for("DYNAMIC_TOPIC_CONFIG: retention.ms=1000000")
    page.go(f"{KEY}&way=delete")
    page.wait_for("- retention.ms=1000000\n+ the default holds")
    page.confirm()
    page.wait_for("retention.ms was changed.")


def test_a_change_that_the_cluster_would_refuse_says_so_and_has_no_button(page: Page) -> None:
    page.go(f"{KEY}&way=set&value=tomorrow")
    page.wait_for("the cluster would refuse it")
    assert page.count("main form[method=post]") == 0


def test_a_value_that_is_markup_is_shown_as_text(page: Page) -> None:
    page.go("/config?kind=client-metrics&name=fleet&key=match&way=set")
    box = page.find("input[name=value]")
    box.clear()
    box.send_keys(HOSTILE_MATCH)
    page.click("form[action='/config'] button")
    page.wait_for(f"+ match={HOSTILE_MATCH}")
    page.confirm()
    page.wait_for("match was changed.")
    page.wait_for(f"DYNAMIC_CLIENT_METRICS_CONFIG: match={HOSTILE_MATCH}")


def test_a_secret_is_in_no_address_and_on_no_page(page: Page) -> None:
    page.go("/config?kind=broker&name=1&key=ssl.key.password&way=set&value=in-the-address")
    page.wait_for("+ ssl.key.password=(secret, typed below)")
    assert "in-the-address" not in page.browser.page_source
    box = page.find("input[name=secret]")
    assert box.get_attribute("type") == "password"
    box.send_keys("typed-here")
    page.confirm()
    page.wait_for("ssl.key.password was changed.")
    assert "typed-here" not in page.browser.page_source
    assert "typed-here" not in page.browser.current_url
