"""Apache Kafka's kafka-configs sets quotas of users, client ids and addresses here, and reads them again.

What AlterClientQuotas and DescribeClientQuotas refuse is refused with the codes of Apache Kafka.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from barnabas.wire.messages import alter_client_quotas_request as alter
from barnabas.wire.messages import describe_client_quotas_request as describe
from barnabas.wire.schema import Message
from tests.interop.kafka_tools import CONFIGS
from tests.interop.test_authorization import OneNode
from tests.peers import CLASS_PATH
from tests.process.launch import wait_until

pytestmark = [
    pytest.mark.peers("kafka"), pytest.mark.java, pytest.mark.slow, pytest.mark.process,
    pytest.mark.timeout(240),
]  # fmt: skip
Pairs = list[tuple[str, str | None]]
ENTITIES: list[Pairs] = [
    [("user", "alice")], [("user", None)], [("client-id", "app")], [("client-id", None)],
    [("user", "alice"), ("client-id", "app")], [("user", None), ("client-id", None)],
    [("ip", "10.0.0.1")], [("ip", None)], [("ip", "no such name !")], [],
    [("user", "")], [("other", "x")], [("user", "a"), ("ip", "10.0.0.1")],
]  # fmt: skip
OPS: list[list[tuple[str, float, bool]]] = [
    [("producer_byte_rate", 1000, False)], [("consumer_byte_rate", 0, False)],
    [("consumer_byte_rate", -1, False)], [("producer_byte_rate", 1.5, False)],
    [("request_percentage", 1.5, False)], [("controller_mutation_rate", 0.5, False)],
    [("connection_creation_rate", 100_000, False)], [("connection_creation_rate", 3e9, False)],
    [("no_such", 1, False)], [("producer_byte_rate", 1e19, False)],
    [("producer_byte_rate", 1, False), ("producer_byte_rate", 2, False)],
    [("producer_byte_rate", 0, True)], [("no_such", 0, True)],
]  # fmt: skip
FILTERS: list[tuple[list[tuple[str, int, str | None]], bool]] = [
    ([], False), ([], True), ([("user", 0, "alice")], False), ([("user", 0, "alice")], True),
    ([("user", 1, None)], False), ([("user", 2, None)], True), ([("client-id", 2, None)], False),
    ([("user", 2, None), ("client-id", 2, None)], True), ([("ip", 2, None)], False),
    ([("ip", 0, "10.0.0.1")], True), ([("ip", 2, None), ("user", 2, None)], False),
    ([("user", 0, None)], False), ([("user", 1, "x")], False), ([("user", 2, "x")], False),
    ([("user", 5, None)], False), ([("other", 2, None)], False), ([("", 2, None)], False),
    ([("user", 2, None), ("user", 2, None)], False), ([("user", 0, "")], False),
]  # fmt: skip


def alteration(entity: Pairs, ops: list[tuple[str, float, bool]]) -> alter.AlterClientQuotasRequest:
    entry = alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[alter.OpData(key=key, value=value, remove=gone) for key, value, gone in ops],
    )
    return alter.AlterClientQuotasRequest(entries=[entry])


def question(
    components: list[tuple[str, int, str | None]], strict: bool
) -> describe.DescribeClientQuotasRequest:
    parts = [
        describe.ComponentData(entity_type=kind, match_type=how, match=match)
        for kind, how, match in components
    ]
    return describe.DescribeClientQuotasRequest(components=parts, strict=strict)


def altered(response: Any) -> list[Any]:
    return [entry.error_code for entry in response.entries]


def described(response: Any) -> Any:
    entries = response.entries if response.entries is None else sorted(
        (
            sorted((part.entity_type, part.entity_name or "") for part in entry.entity),
            sorted((value.key, value.value) for value in entry.values),
        )
        for entry in response.entries
    )  # fmt: skip
    return response.error_code, response.error_message or None, entries


def asked(node: OneNode, request: Message, reading: Callable[[Any], Any]) -> Any:
    """What a node answers, or that it closes the connection instead."""
    try:
        return reading(node.ask(request))
    except OSError:
        return "closed"


def test_quotas_are_set_refused_and_described_as_apache_kafka_does(tmp_path: Path) -> None:
    nodes = (OneNode(tmp_path / "kafka", True), OneNode(tmp_path / "ours", False))
    differ: list[Any] = []
    try:
        for node in nodes:
            wait_until(node.is_up, f"{node.bootstrap} answers")
        for entity in ENTITIES:
            for ops in OPS:
                kafka, ours = (asked(node, alteration(entity, ops), altered) for node in nodes)
                if kafka != ours:
                    differ.append((entity, ops, kafka, ours))
        for components, strict in FILTERS:
            kafka, ours = (asked(node, question(components, strict), described) for node in nodes)
            if kafka != ours:
                differ.append((components, strict, kafka, ours))
    finally:
        for node in nodes:
            node.close()
    assert differ == [], "\n".join(map(repr, differ))


def kafka_configs(*words: str) -> str:
    done = subprocess.run(
        ["java", "-Xmx200m", "-cp", CLASS_PATH, CONFIGS, *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafka_configs_alters_and_describes_quotas(tmp_path: Path) -> None:
    node = OneNode(tmp_path / "ours", False)
    try:
        wait_until(node.is_up, f"{node.bootstrap} answers")
        at = ("--bootstrap-server", node.bootstrap)
        whose = ("--entity-type", "users", "--entity-name", "alice",
                 "--entity-type", "clients", "--entity-default")  # fmt: skip
        kafka_configs(
            *at, "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50", *whose
        )
        told = kafka_configs(*at, "--describe", *whose)
        assert "producer_byte_rate=1024.0" in told and "request_percentage=50.0" in told
        address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
        kafka_configs(*at, "--alter", "--add-config", "connection_creation_rate=7", *address)
        assert "connection_creation_rate=7.0" in kafka_configs(*at, "--describe", *address)
        kafka_configs(
            *at, "--alter", "--delete-config", "producer_byte_rate,request_percentage", *whose
        )
        assert "producer_byte_rate" not in kafka_configs(*at, "--describe", *whose)
        assert "connection" in kafka_configs(*at, "--describe", "--entity-type", "ips")
    finally:
        node.close()


def in_order(response: Any) -> Any:
    """The parts and the values of each entity as they come; entities themselves have no order."""
    return sorted(
        (
            [(part.entity_type, part.entity_name) for part in entry.entity],
            [value.key for value in entry.values],
        )
        for entry in response.entries
    )


KEYS = [
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
]
SETS = [list(keys) for size in range(1, 5) for keys in permutations(KEYS, size)]


def test_parts_and_values_are_in_the_order_of_apache_kafka(tmp_path: Path) -> None:
    """Clients' tests compare whole answers (@platformatic/kafka)."""
    nodes = (OneNode(tmp_path / "kafka", True), OneNode(tmp_path / "ours", False))
    try:
        for node in nodes:
            wait_until(node.is_up, f"{node.bootstrap} answers")
        found: list[Any] = []
        for node in nodes:
            for number, keys in enumerate(SETS):
                pairs: Pairs = [("user", f"u{number:02}"), ("client-id", "c")]
                told = node.ask(alteration(pairs, [(key, 1, False) for key in keys]))
                assert [part.entity_type for part in told.entries[0].entity] == [
                    "client-id",
                    "user",
                ]
            everything = question([("user", 2, None)], False)

            def is_all(node: OneNode = node) -> bool:
                return len(node.ask(everything).entries) == len(SETS)  # noqa: B023

            wait_until(is_all, "the broker lags behind")
            found.append(in_order(node.ask(everything)))
        assert found[0] == found[1], [
            pair for pair in zip(*found, strict=True) if pair[0] != pair[1]
        ]
    finally:
        for node in nodes:
            node.close()
