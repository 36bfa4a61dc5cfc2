"""APIs that a cluster without security knows and refuses: the answers of Apache Kafka 4.3.0, byte by byte."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.handlers import MODULES as BROKER_HANDLERS
from barnabas.controller.handlers import (
    FORWARDED,
    create_acls,
    delete_acls,
    describe_acls,
)
from barnabas.controller.handlers import (
    MODULES as OF_CONTROLLERS,
)
from barnabas.wire.api_table import ApiKey
from barnabas.wire.codec import encode_bytes
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls_request import DescribeAclsRequest
from barnabas.wire.request import HandlerModule, RequestContext
from barnabas.wire.schema import Message

ACLS = {ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
TWO_ADDED = CreateAclsRequest(creations=[AclCreation(resource_type=2, resource_name="t")] * 2)
TWO_FILTERS = DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=2)] * 2)
ALL = DescribeAclsRequest()
NONE = b"No Authorizer is configured."
NONE_HERE = b"No Authorizer is configured on the broker"


@pytest.mark.parametrize(
    ("module", "request_", "version", "expected"),
    [
        (describe_acls, ALL, 1, b"\0\0\0\0\x006\0\x29" + NONE_HERE + bytes(4)),
        (describe_acls, ALL, 3, b"\0\0\0\0\x006\x2a" + NONE_HERE + b"\x01\0"),
        (create_acls, TWO_ADDED, 1, bytes(7) + b"\x02" + 2 * (b"\x006\0\x1c" + NONE)),
        (create_acls, TWO_ADDED, 3, bytes(4) + b"\x03" + 2 * (b"\x006\x1d" + NONE + b"\0") + b"\0"),
        (delete_acls, TWO_FILTERS, 1, bytes(7) + b"\x02" + 2 * (b"\x006\0\x1c" + NONE + bytes(4))),
        (
            delete_acls,
            TWO_FILTERS,
            3,
            bytes(4) + b"\x03" + 2 * (b"\x006\x1d" + NONE + b"\x01\0") + b"\0",
        ),
    ],
)
def test_acls_are_refused_with_the_bytes_of_apache_kafka(
    module: Any, request_: Message, version: int, expected: bytes
) -> None:
    ctx = RequestContext(api_key=module.API.key, api_version=version)
    with pytest.raises(KafkaError) as refused:
        module.handle(request_, ctx, SimpleNamespace(authorizer=None))
    answer = module.API.error_response(request_, refused.value.code, refused.value.message)
    assert encode_bytes(answer, version) == expected


def test_apis_are_served_where_apache_kafka_serves_them() -> None:
    def keys(modules: Iterable[HandlerModule]) -> set[ApiKey]:
        return {module.API.key for module in modules} & ACLS

    assert keys(OF_CONTROLLERS) == ACLS
    assert keys(BROKER_HANDLERS) == {ApiKey.DESCRIBE_ACLS}
    assert keys(FORWARDED) == {ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
