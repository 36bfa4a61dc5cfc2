"""The page of the protocol, beside what the listeners of a running node answer to ApiVersions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.config.properties import parse_properties
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from bench.wire import ask
from tests.process.launch import wait_until
from tests.process.test_node import format_storage, write_properties

pytestmark = [pytest.mark.process, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
ROW = re.compile(r"\| (\d+) \| (\w+) \| (\S*)(?: forwarded)? \| (\S*) \|")
Ranges = dict[int, str]


def documented() -> tuple[Ranges, Ranges]:
    rows = [row for line in PAGE.read_text().splitlines() if (row := ROW.fullmatch(line))]
    return tuple({int(row[1]): row[at] for row in rows if row[at]} for at in (3, 4))  # type: ignore[return-value]


def advertised(address: str) -> Ranges:
    request = ApiVersionsRequest(client_software_name="page", client_software_version="1")
    answer = ask(address, request, 5, ApiVersionsResponse)
    return {api.api_key: f"{api.min_version}-{api.max_version}" for api in answer.api_keys}


@pytest.mark.parametrize("two_phase_commit", ["false", "true"])
def test_the_page_has_the_versions_that_each_listener_advertises(
    tmp_path: Path, two_phase_commit: str
) -> None:
    file = write_properties(tmp_path, transaction_two_phase_commit_enable=two_phase_commit)
    format_storage(file)
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        node = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "node", "start", str(file)], stderr=stderr
        )
    try:
        wait_until(lambda: "node.started" in log.read_text(), "the node has started")
        listeners = parse_properties(file.read_text())["listeners"].split(",")
        by_broker, by_controller = documented()
        if two_phase_commit == "true":
            by_broker[ApiKey.INIT_PRODUCER_ID] = "0-6"
        assert advertised(listeners[0].partition("://")[2]) == by_broker
        assert advertised(listeners[1].partition("://")[2]) == by_controller
    finally:
        node.terminate()
        node.wait(20)
