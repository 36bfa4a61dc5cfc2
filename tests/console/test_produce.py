"""One record is written in a real browser, with markup in its key, value and headers."""

from __future__ import annotations

from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from tests.console.conftest import HOSTILE, Page

TEXT = HOSTILE.decode()


def test_a_record_with_headers_is_written_and_shown(page: Page, connected: Connected) -> None:
    tp = TopicPartition("errands", 2)
    page.go("/produce?topic=errands&partition=2")
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


def test_a_value_in_avro_is_shown_by_its_schema(page: Page, connected: Connected) -> None:
    text = b"<b>SFO"
    value = b"\x00" + (1).to_bytes(4, "big") + bytes([2 * len(text)]) + text
    with connected.producer() as producer:
        producer.send(ProducerRecord("errands", value, partition=0))
    page.go("/records?topic=errands&partition=0&as=registry")
    page.wait_for('"to": "<b>SFO"')


def test_a_value_that_is_no_json_is_refused(page: Page) -> None:
    page.go("/produce?topic=errands")
    page.find("textarea[name=value]").send_keys("{")
    page.click("select[name=as] option:nth-child(2)")
    page.confirm()
    page.wait_for("the value is no JSON")
