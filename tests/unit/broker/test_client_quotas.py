"""DescribeClientQuotas: entities and quotas in the order of Kafka 4.3, which clients' tests compare."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.handlers import describe_client_quotas
from barnabas.controller.security import client_quotas
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.wire.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from barnabas.wire.request import RequestContext

OF_BOTH = (("client-id", "c"), ("user", "u"))


def described(quotas: dict[str, float]) -> Any:
    broker = SimpleNamespace(image=SimpleNamespace(client_quotas={OF_BOTH: quotas}))
    ctx = RequestContext(api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, api_version=1)
    return describe_client_quotas.handle(DescribeClientQuotasRequest(), ctx, broker)


def test_success_has_an_empty_message_and_the_client_id_comes_before_the_user() -> None:
    answer = described({"producer_byte_rate": 1.0})
    assert answer.error_message == ""
    assert [part.entity_type for part in answer.entries[0].entity] == ["client-id", "user"]


@pytest.mark.parametrize(
    "keys",
    [
        ["producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate", "request_percentage"],
        ["consumer_byte_rate", "producer_byte_rate"],
        ["request_percentage", "producer_byte_rate"],
        ["consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate"],
        ["consumer_byte_rate", "controller_mutation_rate", "request_percentage"],
        ["connection_creation_rate"],
    ],
)  # fmt: skip
def test_quotas_come_in_the_order_of_kafkas_map(keys: list[str]) -> None:
    """The orders are those of a broker of Apache Kafka 4.3.0, whatever the order of the alterations was."""
    answer = described(dict.fromkeys(sorted(keys), 1.0))
    assert [value.key for value in answer.entries[0].values] == keys


@pytest.mark.parametrize(
    "kinds", [("user", "client-id"), ("client-id", "user"), ("user",), ("ip",)]
)
def test_an_alteration_is_answered_with_client_id_before_user(kinds: tuple[str, ...]) -> None:
    """In whatever order the request names them; for an entity that is refused, too."""
    parts = [EntityData(entity_type=kind, entity_name=kind) for kind in kinds]
    request = AlterClientQuotasRequest(
        entries=[EntryData(entity=parts, ops=[OpData(key="no such")])]
    )
    cluster: Any = SimpleNamespace(image=SimpleNamespace(client_quotas={}))
    (entry,) = client_quotas.alter(cluster, request).response.entries
    assert [part.entity_type for part in entry.entity] == sorted(kinds)
