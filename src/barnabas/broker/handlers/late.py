"""Handlers of APIs that many nodes never serve: their modules are loaded with the first request.

`late` is put in place of a handler's module in a listener's table. The listener's table needs the
declaration at once: it is made from the protocol's table and from the arguments of `late`. A test
compares it with the module's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.request import Api, HandlerModule, Parked, RequestContext, Resource
from barnabas.wire.schema import Message

HERE = "barnabas.broker.handlers"


class LateApi(Api):
    """A declaration whose request class is loaded with its first use."""

    __slots__ = ()

    @property
    def request(self) -> type[Message]:
        schema = API_SCHEMAS[self.key]
        module = import_module(f"barnabas.wire.messages.{schema.request_module}")
        return cast("type[Message]", getattr(module, f"{schema.name}Request"))


class LateModule:
    """A handler's module before it is loaded."""

    __slots__ = ("API", "_name")

    def __init__(self, name: str, resource: Resource, operation: str, waits: bool) -> None:
        self._name = name
        key = ApiKey[name.upper()]
        self.API = LateApi(key, Message, self._error_response, resource, operation, waits)

    def __repr__(self) -> str:
        return f"LateModule({self._name})"

    def load(self) -> HandlerModule:
        """Import the module, once."""
        return cast("HandlerModule", import_module(f"{HERE}.{self._name}"))

    def _error_response(self, request: Any, code: int, message: str) -> Message | None:
        return self.load().API.error_response(request, code, message)

    def handle(self, request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        """Answer or park the request by the module's handler."""
        return self.load().handle(request, ctx, role)


def late(name: str, resource: Resource, operation: str, *, waits: bool = False) -> HandlerModule:
    """The handler module of the API `name`, which is loaded late, with the permission that the API
    needs."""
    return cast("HandlerModule", LateModule(name, resource, operation, waits))
