"""Strings that are not UTF-8 beside Apache Kafka: the same text in its answers and in ours. Offset metadata
differs: Kafka replaces its bytes and we keep them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.local.free_ports import FreePorts
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.api_versions_response import ApiVersionsResponse
from tests.interop.node_process import NodeProcess
from tests.process.launch import wait_until
from tests.process.test_any_request import ask, class_of, topic_with_records
from tests.process.test_damaged_text import (
    RAW,
    address_of,
    answer_to_damaged,
    committed,
    has_committed,
)
from tests.unit.wire.damaged_text import string_places

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.peers("kafka"),
    pytest.mark.timeout(600),
]
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_DAMAGED = re.compile(r"'[^'\s]*\ufffd+[^'\s]*'")


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with Cluster(1, settings=SETTINGS) as cluster:
        yield address_of(cluster)


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, controller = FreePorts().take(2)
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    directory: Path = tmp_path_factory.mktemp("kafka") / "node"
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(directory / "data"),
        **SETTINGS,
    }
    node = NodeProcess(
        directory, "".join(f"{key}={value}\n" for key, value in properties.items()), java=True
    )
    address = f"127.0.0.1:{port}"
    try:
        wait_until(lambda: is_served(address), "Apache Kafka to answer")
        yield address
    finally:
        node.stop()


def is_served(address: str) -> bool:
    try:
        ask(address, ApiVersionsRequest(), 0, ApiVersionsResponse)
    except (AssertionError, OSError):
        return False
    return True


def highest(address: str) -> dict[int, int]:
    served = ask(address, ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {api.api_key: api.max_version for api in served.api_keys}


def words(answer: Any) -> set[str]:
    """The text with replaced characters in the names of an answer; not in sentences, which differ."""
    named = re.sub(r"error_message=('[^']*'|\"[^\"]*\"|None)", "", repr(answer))
    return set(_DAMAGED.findall(named))


def test_an_answer_has_the_text_that_is_in_kafkas(ours: str, kafkas: str) -> None:
    kafka_serves, compared = highest(kafkas), 0
    for key, ours_serve in highest(ours).items():
        if key not in kafka_serves:
            continue
        version = min(ours_serve, kafka_serves[key])
        schema = API_SCHEMAS[key]
        cls = class_of(schema.request_module, f"{schema.name}Request")
        response = class_of(schema.response_module, f"{schema.name}Response")
        for place in string_places(cls, version):
            asked = (cls, response, version, place)
            mine, theirs = answer_to_damaged(ours, *asked), answer_to_damaged(kafkas, *asked)
            assert words(mine) == words(theirs), (schema.name, version, place, mine, theirs)
            compared += bool(words(theirs))
    assert compared > 20


def test_kafka_replaces_offset_metadata_and_we_keep_it(ours: str, kafkas: str) -> None:
    for address in (ours, kafkas):
        wait_until(lambda at=address: has_topic(at), "the topic")  # type: ignore[misc]
        wait_until(lambda at=address: has_committed(at), "the coordinator to commit")  # type: ignore[misc]
    assert RAW in committed(ours)
    replaced = RAW.decode(errors="replace").encode()
    assert RAW not in committed(kafkas)
    assert replaced in committed(kafkas)


def has_topic(address: str) -> bool:
    try:
        topic_with_records(address, "offsets")
    except AssertionError:
        return False
    return True
