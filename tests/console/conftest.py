"""A browser and a console on a cluster of three nodes; without Chromium the tests skip with a sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.client.offsets import CommittedOffset, GroupIdentity, commit
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected, connect
from barnabas.testing.cluster import Cluster
from barnabas.types import TopicPartition
from tests.hanging_transaction import UNVERIFIED
from tests.unit.pipeline.formats.registry_server import Registry, registry_server

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = b"<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCHEMA = {"type": "record", "name": "Flight", "fields": [{"name": "to", "type": "string"}]}
NOT_TEXT = b"\xff\xfe\x1b[31m\x00\xe2\x80\xae"
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900",
)  # fmt: skip


def missing_browser() -> str | None:
    """A sentence about what is missing, or None."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install chromium chromium-driver"
    return None


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    sentence = missing_browser()
    if sentence is not None:
        pytest.skip(sentence)
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
    driver.implicitly_wait(10)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def cluster(browser: Any) -> Iterator[Cluster]:
    """Three nodes with a topic whose records are hostile, and one that tests write to. The browser comes
    first: it may skip."""
    settings = {
        "offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1",
        "broker.session.timeout.ms": "3000", UNVERIFIED: "false",
        "authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS",
    }  # fmt: skip
    with Cluster(nodes=3, settings=settings, racks=("a", "b", "c")) as started:
        with connect(started.bootstrap) as client:
            client.create_topic("flights", partitions=3, replication_factor=3)
            client.create_topic("errands", partitions=3, replication_factor=1)
            with client.producer() as producer:
                for value in (b'{"from": "JFK", "delay": 7}', HOSTILE, NOT_TEXT, None):
                    producer.send(
                        ProducerRecord(
                            "flights", value, key=HOSTILE, partition=0, headers=(("h", NOT_TEXT),)
                        )
                    )
            offsets = {TopicPartition("flights", 0): CommittedOffset(2)}
            for group in ("billing", HOSTILE.decode()):
                client.call(commit(client.client, GroupIdentity(group), offsets))
        yield started


@pytest.fixture(scope="session")
def connected(cluster: Cluster) -> Iterator[Connected]:
    """A client of that cluster."""
    with connect(cluster.bootstrap) as client:
        yield client


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    """A schema registry with one Avro schema, whose id is 1."""
    with registry_server() as started:
        started.register("flights-value", json.dumps(SCHEMA))
        yield started


@pytest.fixture(scope="session")
def console(cluster: Cluster, registry: Registry) -> Iterator[str]:
    """The address of a console of that cluster and registry."""
    with console_of(cluster, "--schema-registry", registry.url) as address:
        yield address


@contextmanager
def console_of(cluster: Cluster, *options: str) -> Iterator[str]:
    """A console of `cluster`; its address."""
    command = [sys.executable, "-m", "barnabas", "console", "--port", "0", *options]
    process = subprocess.Popen(
        [*command, "--bootstrap", cluster.bootstrap],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("console: http://127.0.0.1:"), line
    yield line.removeprefix("console: ").strip().rstrip("/")
    process.terminate()
    assert process.wait(60) == 0
    process.stdout.close()


@pytest.fixture
def page(browser: Chrome, console: str) -> Iterator[Page]:
    """Goes to pages; at its end no script has failed and none of a value has run."""
    browser.get_log("browser")  # type: ignore[no-untyped-call]
    opened = Page(browser, console)
    yield opened
    assert opened.complaints() == []
    assert browser.title != "owned"


def replaced() -> tuple[type[Exception], ...]:
    """The errors of an element that a live page has replaced since it was found."""
    from selenium.common.exceptions import StaleElementReferenceException

    return (StaleElementReferenceException,)


class Page:
    """The browser at one console."""

    def __init__(self, browser: Chrome, console: str) -> None:
        self.browser = browser
        self.console = console

    def go(self, path: str) -> None:
        self.browser.get(self.console + path)

    @property
    def text(self) -> str:
        return str(self.browser.execute_script("return document.querySelector('main').innerText"))

    def find(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        """Click it like a reader, who aims again where a live page has replaced it meanwhile."""
        from selenium.webdriver.support.ui import WebDriverWait

        def click(_: Chrome) -> bool:
            self.find(selector).click()
            return True

        WebDriverWait(self.browser, 20.0, 0.05, ignored_exceptions=replaced()).until(
            click, selector
        )

    def hold(self, selector: str) -> None:
        """Press the button on it, and keep it down."""
        from selenium.webdriver import ActionChains
        from selenium.webdriver.support.ui import WebDriverWait

        listen = "addEventListener('pointerdown', (event) => { pressed = event.target; })"
        self.browser.execute_script(f"pressed = null; {listen}")

        def is_pressed(_: Chrome) -> bool:
            ActionChains(self.browser).release().click_and_hold(self.find(selector)).perform()
            script = "return pressed !== null && pressed.matches(arguments[0])"
            return bool(self.browser.execute_script(script, selector))

        WebDriverWait(self.browser, 20.0, 0.05, ignored_exceptions=replaced()).until(
            is_pressed, selector
        )

    def release(self) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).release().perform()

    def count_updates(self) -> None:
        """Count the live updates from now on."""
        self.browser.execute_script(
            "updates = 0; document.addEventListener('parts', () => { updates += 1; })"
        )

    def wait_for_update(self, number: int) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 20.0, 0.05).until(
            lambda _: self.browser.execute_script("return updates") >= number, f"update {number}"
        )

    def count(self, selector: str) -> int:
        """How many elements the page has now; it waits for none."""
        script = "return document.querySelectorAll(arguments[0]).length"
        return int(self.browser.execute_script(script, selector))

    def confirm(self) -> None:
        """Press the button that makes the change that the page shows."""
        self.click("main form[method=post] button")

    def wait_for(self, text: str, timeout_s: float = 20.0) -> None:
        """Wait until the page shows `text`."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, timeout_s, 0.05).until(
            lambda _: text in self.text, f"{text!r} is not on {self.browser.current_url}"
        )

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def resize(self, width: int) -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def is_within_its_width(self) -> bool:
        """Whether the page needs no scrolling to the side."""
        script = "return document.documentElement.scrollWidth <= window.innerWidth"
        return bool(self.browser.execute_script(script))

    def complaints(self) -> list[str]:
        """What the browser's console has of scripts and of the policy since it was asked last."""
        return [
            entry["message"]
            for entry in self.browser.get_log("browser")  # type: ignore[no-untyped-call]
            if entry["source"] != "network"
        ]
