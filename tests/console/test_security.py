"""Users, entries and quotas in a real browser, with a name that is markup."""

from __future__ import annotations

from urllib.parse import quote

from barnabas.client.acls import AclQuery, list_acls
from barnabas.client.scram_users import list_users
from barnabas.host.client import Connected
from tests.console.conftest import HOSTILE, Page

NAME = HOSTILE.decode()


def test_a_user_whose_name_is_markup_is_added_and_removed(page: Page, connected: Connected) -> None:
    page.go(f"/user?name={quote(NAME)}&mechanism=SCRAM-SHA-256&way=set")
    page.wait_for("A new user is added.")
    page.find("input[name=password]").send_keys("typed-here")
    page.find("input[name=again]").send_keys("typed-here")
    page.confirm()
    page.wait_for("has a new password of SCRAM-SHA-256.")
    assert "typed-here" not in page.browser.page_source + page.browser.current_url
    assert [user.name for user in connected.call(list_users(connected.client))] == [NAME]
    page.click("main a[href*='way=remove']")
    page.wait_for("no new connection can use it")
    page.confirm()
    page.wait_for("No SCRAM user is here.")


def test_an_entry_is_added_and_removed(page: Page, connected: Connected) -> None:
    page.go("/acls?resource=topic")
    page.find("input[name=principal]").send_keys(f"User:{NAME}")
    page.find("form[action='/acl'] input[name=name]").send_keys("flights")
    page.click("form[action='/acl'] button")
    page.wait_for("+ allow User:<script>")
    page.confirm()
    page.wait_for("was added.")
    [entry] = connected.call(list_acls(connected.client, AclQuery()))
    assert (entry.principal, entry.resource_name) == (f"User:{NAME}", "flights")
    page.click("main a[href^='/acl?way=remove']")
    page.wait_for("- allow User:<script>")
    page.confirm()
    page.wait_for("No entry is here.")


def test_a_quota_is_set_and_removed(page: Page) -> None:
    page.go(f"/quota?user={quote(NAME)}&key=producer_byte_rate&limit=1000000")
    page.wait_for("+ producer_byte_rate=1000000")
    page.confirm()
    page.wait_for("producer_byte_rate was set.")
    page.wait_for("bytes/s")
    page.click("main a[href^='/quota?key=']")
    page.wait_for("- producer_byte_rate=1000000")
    page.confirm()
    page.wait_for("No quota is here.")
