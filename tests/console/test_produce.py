"""One record is written in a real browser, with markup in its key, value and headers."""

from __future__ import annotations

from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from tests.console.conftest import HOSTILE, Page

TEXT = HOSTILE.decode()


def test_a_record_with_headers_is_written_and_shown(page: Page, connected: Connected) -> None:
    tp = TopicPartition("flights", 2)
    page.go("/produce?topic=flights&partition=2")
    page.find("input[name=key]").send_keys(TEXT)
    page.find("textarea[name=value]").send_keys(TEXT)
    page.find("textarea[name=headers]").send_keys(f"trace: {TEXT}\nempty")
    page.confirm()
    page.wait_for("The record has offset")
    page.wait_for(f"trace: {TEXT}")
    at = connected.offsets([tp])[tp].offset - 1
    (record,) = connected.fetch({tp: at})[tp].records(at)
    assert (record.key, record.value) == (HOSTILE, HOSTILE)
    assert dict(record.headers) == {"trace": HOSTILE, "empty": None}


def test_a_value_that_is_no_json_is_refused(page: Page) -> None:
    page.go("/produce?topic=flights")
    page.find("textarea[name=value]").send_keys("{")
    page.find("select[name=as] option:nth-child(2)").click()
    page.confirm()
    page.wait_for("the value is no JSON")
