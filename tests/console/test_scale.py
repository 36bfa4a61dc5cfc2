"""The console of a cluster with ten thousand partitions and a thousand groups: pages stay small and quick."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.offsets import CommittedOffset, GroupIdentity, commit
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from tests.console.conftest import Page, console_of

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]
TOPICS, GROUPS = 40, 1_000
LARGE = "large"
LARGE_PARTITIONS = 6_000
PARTITIONS = 100
"""Partitions of each of the other topics: ten thousand in sum."""
BYTES_MAX = 700_000
FIRST_BYTE_S_MAX = 30.0
"""On a machine that runs the nodes and other tests as well; alone it is a second or less."""
PATHS = {
    "/": "10 001",
    "/topics": "41 topics",
    "/topics?first=0&q=topic-1": "topics",
    "/topic?name=large": "previous|next 200",
    "/topic?name=large&first=5800": "large-5999",
    "/topic?name=large&partition=5999": "large-5999",
    "/groups": "1 000 groups",
    "/groups?first=800": "previous",
    "/group?id=whole": "next 500",
    "/group?id=whole&first=5500": "large-5999",
    "/group/reset?id=whole&way=to-earliest": "the first 500 are shown",
    "/events": "What happened, and why",
    "/moves": "Log directories",
}
"""Addresses, and something that each shows."""


@pytest.fixture(scope="module")
def cluster(browser: Any) -> Iterator[Cluster]:
    settings = {"offsets.topic.num.partitions": "1"}
    with Cluster(nodes=3, settings=settings, start_timeout_s=300.0) as started:
        with connect(started.bootstrap) as client:
            client.create_topic(LARGE, partitions=LARGE_PARTITIONS, replication_factor=1)
            for number in range(TOPICS):
                client.create_topic(f"topic-{number}", partitions=PARTITIONS, replication_factor=1)
            with client.producer() as producer:
                for index in range(0, LARGE_PARTITIONS, 60):
                    producer.send(ProducerRecord(LARGE, b"v", partition=index))
            first = {TopicPartition(LARGE, 0): CommittedOffset(0)}
            for number in range(GROUPS - 1):
                client.call(commit(client.client, GroupIdentity(f"group-{number}"), first))
            every = {
                TopicPartition(LARGE, index): CommittedOffset(0)
                for index in range(LARGE_PARTITIONS)
            }
            client.call(commit(client.client, GroupIdentity("whole"), every))
        yield started
        for node in started.node_ids:  # they would close thousands of logs one by one
            started.kill(node)


@pytest.fixture(scope="module")
def console(cluster: Cluster) -> Iterator[str]:
    with console_of(cluster) as address:
        yield address


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_small_and_shown_without_an_error(page: Page, console: str, path: str) -> None:
    began = time.monotonic()
    with urllib.request.urlopen(console + path, timeout=60) as answer:
        start = answer.read(1)
        first_byte_s = time.monotonic() - began
        size = len(start + answer.read())
    print(json.dumps({"path": path, "first_byte_ms": round(first_byte_s * 1000), "bytes": size}))
    note = os.environ.get("BARNABAS_CONSOLE_FIGURES")
    if note:
        with Path(note).open("a", encoding="utf-8") as file:
            file.write(f"| `{path}` | {first_byte_s * 1000:.0f} | {size / 1000:.0f} |\n")
    assert size < BYTES_MAX
    assert first_byte_s < FIRST_BYTE_S_MAX
    page.resize(1280)
    page.go(path)
    shown = page.text.replace("\u202f", " ")
    assert any(text in shown for text in PATHS[path].split("|")), shown[:2_000]
    assert "cannot be shown" not in shown
    page.resize(390)
    assert page.is_within_its_width()
