"""Rules of the authorizer name fields that their messages have."""

from __future__ import annotations

from importlib import import_module

import pytest

from barnabas.security.authorization.access_rules import AccessRule
from barnabas.security.authorization.broker_access import BROKER_RULES
from barnabas.security.authorization.controller_access import CONTROLLER_RULES
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.schema import Message

RULES = [*BROKER_RULES.items(), *CONTROLLER_RULES.items()]


def message_class(module: str, name: str) -> type[Message]:
    found: type[Message] = getattr(import_module(f"barnabas.wire.messages.{module}"), name)
    assert issubclass(found, Message)
    return found


def has_field(message: type[Message] | None, path: str) -> bool:
    """Whether each part of `path` is a field of the structure before it."""
    name, _, inner = path.partition(".")
    field = {} if message is None else {field.name: field for field in message.FIELDS}
    return name in field and (not inner or has_field(field[name].struct, inner))


@pytest.mark.parametrize(("key", "rule"), RULES, ids=[key.name for key, _ in RULES])
def test_a_rule_names_fields_of_its_messages(key: ApiKey, rule: AccessRule) -> None:
    schema = API_SCHEMAS[key]
    if rule.request_fields:
        request = message_class(schema.request_module, f"{schema.name}Request")
        assert [path for path in rule.request_fields if not has_field(request, path)] == []
    if rule.response_fields:
        response = message_class(schema.response_module, f"{schema.name}Response")
        assert [path for path in rule.response_fields if not has_field(response, path)] == []


def test_a_field_that_a_message_lacks_is_noticed() -> None:
    request = message_class("delete_groups_request", "DeleteGroupsRequest")
    assert has_field(request, "groups_names")
    assert not has_field(request, "groups") and not has_field(request, "groups_names.name")
