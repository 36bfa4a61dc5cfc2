"""A request that waits for metadata in ZooKeeper mode holds its connection until it has taken effect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.ports import Ports
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_groups_response import ListGroupsResponse
from barnabas.wire.request import HandlerModule, Parked, Working
from barnabas.zookeeper.node.ready_gate import ReadyGate

LATER = object()


class Handler:
    """Answers with `result`, or raises it; `calls` are the requests it has had."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.calls: list[Any] = []
        key = SimpleNamespace(name="LIST_GROUPS")
        self.API = SimpleNamespace(key=key, error_response=lambda request, code, message: code)

    def handle(self, request: Any, ctx: Any, role: Any) -> Any:
        self.calls.append(request)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def gate_before(handler: Handler) -> tuple[ReadyGate, Any]:
    events: list[str] = []
    ports = SimpleNamespace(log=lambda level, event, **fields: events.append(event))
    gate = ReadyGate(cast("Ports", ports))
    return gate, gate.before(cast("HandlerModule", handler))


def waiting_of(module: Any, request: object = LATER) -> Working:
    waiting = module.handle(request, None, None)
    assert isinstance(waiting, Working) and holds(waiting)
    return waiting


def holds(working: Working) -> bool:
    return working.holds


def test_a_request_holds_its_connection_until_it_is_answered() -> None:
    answer = ListGroupsResponse()
    handler = Handler(answer)
    gate, module = gate_before(handler)
    waiting = waiting_of(module)
    got: list[Any] = []
    waiting.attach(got.append)
    assert handler.calls == []
    gate.open()
    assert got == [answer] and handler.calls == [LATER] and not holds(waiting)
    assert module.handle(LATER, None, None) is answer


def test_a_request_processed_in_parts_holds_its_connection_to_its_end() -> None:
    """The connection's next write is not handled before this one has taken effect."""
    inner = Working()
    gate, module = gate_before(Handler(inner))
    waiting = waiting_of(module)
    released: list[bool] = []
    got: list[Any] = []
    waiting.attach(got.append)
    waiting.watch(lambda: released.append(True), lambda error: None)
    gate.open()
    assert holds(waiting) and not released
    inner.release()
    assert released == [True] and not holds(waiting) and not got
    inner.complete(ListGroupsResponse())
    assert len(got) == 1


def test_a_request_that_waits_for_others_lets_its_connection_continue() -> None:
    inner = Parked()
    gate, module = gate_before(Handler(inner))
    waiting = waiting_of(module)
    gate.open()
    assert not holds(waiting) and not waiting.done
    inner.complete(ListGroupsResponse())
    assert waiting.done


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.NOT_COORDINATOR, ""), ErrorCode.NOT_COORDINATOR),
        (ValueError("a fault"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_request_that_fails_is_answered_and_released(error: Exception, code: ErrorCode) -> None:
    gate, module = gate_before(Handler(error))
    waiting = waiting_of(module)
    got: list[Any] = []
    waiting.attach(got.append)
    gate.open()
    assert got == [code] and not holds(waiting)


def test_a_request_of_an_ended_connection_is_not_handled() -> None:
    handler = Handler(ListGroupsResponse())
    gate, module = gate_before(handler)
    waiting_of(module).abandon()
    gate.open()
    assert handler.calls == []
