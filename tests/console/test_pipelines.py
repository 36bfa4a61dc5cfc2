"""Pipelines in a real browser: a query with a group and a token, as queries leave them."""

from __future__ import annotations

import json

from barnabas.client.offsets import CommittedOffset, GroupIdentity, commit
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from tests.console.conftest import HOSTILE, Page

QUERY = "0f3c7a52-1111-4222-8333-944455566677"
TOKEN = {"version": 1, "batch": 41, "query": QUERY, "run": "r", "planned": 0, "rows": 1234}


def test_a_query_is_shown_with_its_lag_and_its_last_batch(page: Page, connected: Connected) -> None:
    connected.create_topic("__barnabas_pipelines", 1, 1, {"cleanup.policy": "compact"})
    key = b"barnabas-" + HOSTILE
    with connected.producer() as producer:
        for value in (b"no token", json.dumps(TOKEN).encode()):
            producer.send(ProducerRecord("__barnabas_pipelines", value, key))
    offsets = {TopicPartition("flights", 0): CommittedOffset(1)}
    connected.call(commit(connected.client, GroupIdentity(f"spark-{QUERY}"), offsets))
    page.go("/pipelines")
    page.wait_for(QUERY)
    assert f"{key.decode()}: batch 41, 1\u202f234 rows" in page.text
    page.click("main tbody a")
    page.wait_for("records behind")
