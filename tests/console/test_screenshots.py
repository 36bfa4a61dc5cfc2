"""Pictures of the console's pages for docs/console: all of them again by

``BARNABAS_SCREENSHOTS=docs/console .venv/bin/python -m pytest tests/console/test_screenshots.py``

Without the variable they go to a temporary folder, and the test says whether they are small enough.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.offsets import CommittedOffset, GroupIdentity, commit
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from tests.console.conftest import AUTHORIZER, Page, console_of

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
BYTES_MAX = 1_500_000
WIDTH, HEIGHT, QUALITY = 1280, 800, 55
PAGES = {
    "cluster": "/",
    "events": "/events",
    "topics": "/topics",
    "topic": "/topic?name=flights",
    "partition": "/topic?name=flights&partition=0",
    "records": "/records?topic=flights&from=earliest",
    "produce": "/produce?topic=flights",
    "groups": "/groups",
    "group": "/group?id=billing",
    "group-reset": "/group/reset?id=billing&way=to-earliest",
    "configs": "/configs?kind=topic&name=flights&all=1",
    "config": "/config?kind=topic&name=flights&key=retention.ms&value=3600000",
    "transactions": "/transactions",
    "producers": "/producers?topic=flights&partition=0",
    "moves": "/moves",
    "election": "/election?topic=flights&partition=0&kind=preferred",
    "users": "/users",
    "acls": "/acls",
    "quotas": "/quotas",
    "certificates": "/certificates",
    "pipelines": "/pipelines",
}
"""Names of the pictures, and the addresses that they show."""
NARROW = ("cluster", "group-reset")
"""Pages that are shown 390 pixels wide as well."""


@pytest.fixture(scope="module")
def cluster(browser: Any) -> Iterator[Cluster]:
    """Three nodes in three racks with some records, a group that is behind, and a transaction."""
    settings = {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    with Cluster(nodes=3, settings=settings, racks=("a", "b", "c")) as started:
        with connect(started.bootstrap) as client:
            for topic in ("flights", "bookings", "payments"):
                client.create_topic(topic, partitions=6, replication_factor=3)
            with client.producer() as producer:
                for number in range(600):
                    delay = number * 7 % 60
                    value = b'{"from": "JFK", "to": "LAX", "number": %d, "delay": %d}' % (
                        number,
                        delay,
                    )
                    producer.send(ProducerRecord("flights", value, key=b"JFK-%d" % number))
            behind = {TopicPartition("flights", i): CommittedOffset(20 * i) for i in range(6)}
            for group in ("billing", "invoices", "spark-5e0c7f1c"):
                client.call(commit(client.client, GroupIdentity(group), behind))
        yield started


@pytest.fixture(scope="module")
def console(cluster: Cluster) -> Iterator[str]:
    with console_of(cluster) as address:
        yield address


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = os.environ.get("BARNABAS_SCREENSHOTS")
    found = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    found.mkdir(parents=True, exist_ok=True)
    return found


def picture_of(page: Page, path: str, width: int) -> bytes:
    page.resize(width)
    page.go(path)
    page.browser.execute_script("document.documentElement.dataset.theme = 'light'")
    script = (
        "return document.readyState === 'complete' && Boolean(document.querySelector('main h1'))"
    )
    deadline = time.monotonic() + 20
    while not page.browser.execute_script(script):
        assert time.monotonic() < deadline, f"{path} is not shown"
    assert "cannot be shown" not in page.text
    options = {"format": "webp", "quality": QUALITY}
    taken = page.browser.execute_cdp_cmd("Page.captureScreenshot", options)
    return base64.b64decode(taken["data"])


def test_each_page_has_a_picture(page: Page, folder: Path) -> None:
    for name, path in PAGES.items():
        (folder / f"{name}.webp").write_bytes(picture_of(page, path, WIDTH))
    for name in NARROW:
        (folder / f"{name}-narrow.webp").write_bytes(picture_of(page, PAGES[name], 390))
    total = sum(file.stat().st_size for file in folder.glob("*.webp"))
    assert len(list(folder.glob("*.webp"))) == len(PAGES) + len(NARROW)
    assert total < BYTES_MAX
