"""Replicas on their way in a real browser, and an election that one asks for."""

from __future__ import annotations

import pytest

from barnabas.cli.commands.reassign import ask_for
from barnabas.cli.reassignment import reassignment_throttle as throttling
from barnabas.cli.reassignment.reassignment_progress import under_way
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from tests.console.conftest import Page

CARGO = TopicPartition("cargo", 0)


@pytest.fixture(scope="module")
def cargo(connected: Connected) -> TopicPartition:
    """A partition with some bytes on broker 1 alone."""
    connected.create_topic("cargo", assignments={0: [1]})
    with connected.producer() as producer:
        for _ in range(40):
            producer.send(ProducerRecord("cargo", bytes(50_000), partition=0))
    return CARGO


def test_a_reassignment_is_watched_and_cancelled(
    page: Page, connected: Connected, cargo: TopicPartition
) -> None:
    throttling.throttle(connected, {cargo: throttling.ThrottledMove((1,), (2,))}, 1_000)
    assert ask_for(connected, {cargo: (2,)}) == {}
    page.go("/moves")
    page.wait_for("cargo-0")
    page.wait_for("left")
    assert "throttle" in page.text
    page.click("a[href='/moves/cancel?topic=cargo']")
    page.wait_for("barnabas reassign cancel --topic cargo")
    page.confirm()
    page.wait_for("Cancelled: 1 partition goes back.")
    assert under_way(connected) == {}
    page.wait_for("Nothing is being moved.")


def test_the_preferred_replica_is_elected_by_a_button(page: Page, connected: Connected) -> None:
    connected.create_topic("berths", assignments={0: [2, 3]})
    berths = TopicPartition("berths", 0)
    assert ask_for(connected, {berths: (3, 2)}) == {}
    page.go("/election?topic=berths&partition=0")
    page.wait_for("Broker 3, the preferred replica, becomes the leader.")
    page.confirm()
    page.wait_for("A leader was elected for berths-0.")
    assert connected.topic("berths").partitions[0].leader == 3
