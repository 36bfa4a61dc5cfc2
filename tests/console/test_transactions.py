"""Transactions in a real browser: one that is open, and one that hangs, which is aborted."""

from __future__ import annotations

from barnabas.client.producers.transactional_producer import TransactionalProducer
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from tests.console.conftest import HOSTILE, Page
from tests.hanging_transaction import leave_open


def test_an_open_transaction_is_shown_with_the_partitions_that_wait(
    page: Page, connected: Connected
) -> None:
    producer = TransactionalProducer(connected.client, HOSTILE.decode())
    connected.call(producer.init())
    producer.begin()
    delivery = producer.send(ProducerRecord("errands", b"a", partition=1))
    connected.wait(delivery)
    page.go("/transactions?state=open")
    page.wait_for(HOSTILE.decode())
    page.click("main tbody a")
    page.wait_for("errands-1")
    assert "Ongoing" in page.text
    connected.call(producer.commit())
    page.wait_for("Complete")


def test_a_transaction_that_hangs_is_aborted_after_its_reason_was_shown(
    page: Page, connected: Connected
) -> None:
    connected.topic("errands")
    leave_open(connected, TopicPartition("errands", 2), 777_777)
    page.go("/transactions/hanging?topic=errands&minutes=0")
    page.wait_for("no transactional id has producer id 777777")
    page.click("a[href^='/transactions/abort']")
    page.wait_for("barnabas transactions abort --topic errands --partition 2")
    page.confirm()
    page.wait_for("The transaction was aborted in errands-2.")
    page.go("/transactions/hanging?topic=errands&minutes=0")
    page.wait_for("None hangs.")
