"""Each API's response to a request that is refused as a whole, beside what was written down for it.

``python -m tests.golden.test_error_responses`` writes the file again. The requests name two elements wherever
an element can be named, so that the responses show which fields they repeat.
"""

from __future__ import annotations

import json
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker import handlers as broker
from barnabas.controller import handlers as controller
from barnabas.raft import handlers as raft
from barnabas.security.sasl_server import AUTHENTICATE_API, HANDSHAKE_API
from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.api_versions import API as API_VERSIONS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.request import Api
from barnabas.wire.schema import Message
from barnabas.zookeeper.controller import controlled_shutdown
from barnabas.zookeeper.handlers import leader_and_isr, stop_replica, update_metadata

FILE = Path(__file__).with_name("error_responses.json")
REFUSED = ErrorCode.POLICY_VIOLATION
APIS: dict[str, Api] = {
    f"{room} {api.key.name}": api
    for room, apis in {
        "broker": [
            module.API
            for module in (*broker.MODULES, *broker.SHARES, *broker.STREAMS, *broker.TOKENS)
        ],
        "controller": [module.API for module in controller.MODULES],
        "quorum": [module.API for module in raft.HANDLERS],
        "connection": [API_VERSIONS, HANDSHAKE_API, AUTHENTICATE_API],
        "zookeeper": [
            module.API
            for module in (leader_and_isr, stop_replica, update_metadata, controlled_shutdown)
        ],
    }.items()
    for api in apis
}


def filled(cls: type[Message], numbers: Any) -> Any:
    """A message without a default value, in which each number, text and id is another."""
    message = cls()
    for field in cls.FIELDS:
        values = [_value(field.kind, field.struct, numbers) for _ in range(1 + field.array)]
        setattr(message, field.name, values if field.array else values[0])
    return message


def _value(kind: str, struct: type[Message] | None, numbers: Any) -> Any:
    if struct is not None:
        return filled(struct, numbers)
    number = next(numbers)
    if kind == "string":
        return f"text {number}"
    if kind == "uuid":
        return number.to_bytes(16, "big")
    if kind in ("bytes", "records"):
        return b"bytes %d" % number
    return True if kind == "bool" else number


def shown(value: Any) -> Any:
    """A response as JSON, without the fields that have their default value."""
    if isinstance(value, Message):
        return {
            field.name: shown(found)
            for field in value.FIELDS
            if _differs(found := getattr(value, field.name), field.default)
        }
    if isinstance(value, list | tuple):
        return [shown(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    return value


def _differs(value: Any, default: Any) -> bool:
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return list(value) != list(default)
    return type(value) is not type(default) or bool(value != default)


def responses(api: Api) -> dict[str, Any]:
    schema = API_SCHEMAS[api.key]
    module = import_module(f"barnabas.wire.messages.{schema.request_module}")
    request: type[Message] = getattr(module, f"{schema.name}Request")
    asked = filled(request, count(1))
    return {
        "with a reason": shown(api.error_response(asked, REFUSED, "a reason")),
        "without a reason": shown(api.error_response(asked, REFUSED, "")),
        "to an empty request": shown(api.error_response(request(), REFUSED, "a reason")),
    }


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


@pytest.mark.parametrize("name", APIS)
def test_a_refused_request_gets_the_response_that_was_written_down(
    name: str, golden: dict[str, Any]
) -> None:
    assert responses(APIS[name]) == golden[name]


def test_every_api_is_written_down(golden: dict[str, Any]) -> None:
    assert set(golden) == set(APIS)


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(responses(api))}" for name, api in APIS.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
