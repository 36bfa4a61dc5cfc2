"""Levels of a node's log as configuration: told and changed by that node only, beside other resources."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.config.loggers import AREAS, Loggers
from barnabas.node.logger_configs import OwnLoggers
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import describe_configs_request as describe
from barnabas.wire.messages import incremental_alter_configs_request as alter
from barnabas.wire.messages.describe_configs_response import (
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.wire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.request import Api, Parked
from barnabas.wire.schema import Message
from tools.docs_events import events

TOPIC, LOGGER = 2, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


class Listener:
    """A listener's two handlers of configurations behind a node's loggers; the others answer late."""

    def __init__(self) -> None:
        self.loggers = Loggers("info")
        self.others: list[list[Any]] = []
        self.waiting: list[tuple[Parked, Any]] = []
        self.table = ApiTable()
        for key, kind, answer in (
            (ApiKey.DESCRIBE_CONFIGS, describe.DescribeConfigsRequest, self._described),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, alter.IncrementalAlterConfigsRequest, self._altered),
        ):
            api: Api = Api(key, kind, lambda request, code, message: request, "cluster", "alter")
            self.table.add_handler(api, self._parked(answer), None)
        OwnLoggers(1, self.loggers).serve(self.table)

    def _parked(self, answer: Any) -> Any:
        def handle(request: Any, ctx: Any, role: Any) -> Parked:
            self.others.append([r.resource_name for r in request.resources])
            parked = Parked()
            self.waiting.append((parked, answer(request)))
            return parked

        return handle

    def _described(self, request: Any) -> Any:
        results = [DescribeConfigsResult(resource_name=r.resource_name) for r in request.resources]
        return DescribeConfigsResponse(results=results)

    def _altered(self, request: Any) -> Any:
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(resource_name=r.resource_name)
                for r in request.resources
            ]
        )

    def ask(self, request: Any) -> Any:
        keys: dict[type[Message], ApiKey] = {
            describe.DescribeConfigsRequest: ApiKey.DESCRIBE_CONFIGS,
            alter.IncrementalAlterConfigsRequest: ApiKey.INCREMENTAL_ALTER_CONFIGS,
        }
        entry = self.table.get(keys[type(request)])
        assert entry is not None
        answer: Any = entry.handle(request, None, None)  # type: ignore[arg-type]
        box: list[Any] = []
        if isinstance(answer, Parked):
            answer.attach(box.append)
        else:
            box.append(answer)
        for parked, late in self.waiting:
            assert not box
            parked.complete(late)
        self.waiting.clear()
        return box[0]

    def describe(self, *names: str, keys: list[str] | None = None) -> list[Any]:
        wanted = [
            describe.DescribeConfigsResource(
                resource_type=TOPIC if name.startswith("t") else LOGGER,
                resource_name=name,
                configuration_keys=keys,
            )
            for name in names
        ]
        results: list[Any] = self.ask(describe.DescribeConfigsRequest(resources=wanted)).results
        return results

    def alter(
        self, *resources: tuple[str, list[tuple[str, int, str | None]]], dry: bool = False
    ) -> list[Any]:
        wanted = [
            alter.AlterConfigsResource(
                resource_type=TOPIC if name.startswith("t") else LOGGER,
                resource_name=name,
                configs=[
                    alter.AlterableConfig(name=key, config_operation=what, value=value)
                    for key, what, value in changes
                ],
            )
            for name, changes in resources
        ]
        request = alter.IncrementalAlterConfigsRequest(resources=wanted, validate_only=dry)
        responses: list[Any] = self.ask(request).responses
        return responses


def test_each_area_is_described_with_its_effective_level() -> None:
    listener = Listener()
    (result,) = listener.describe("1")
    assert [c.name for c in result.configs] == sorted(("root", *AREAS))
    assert {(c.value, c.config_source, c.read_only) for c in result.configs} == {("INFO", 6, False)}
    assert [c.name for c in listener.describe("1", keys=["raft", "x"])[0].configs] == ["raft"]
    assert not listener.others


def test_a_level_holds_from_then_on() -> None:
    listener = Listener()
    (answer,) = listener.alter(("1", [("raft", SET, "DEBUG"), ("root", SET, "ERROR")]))
    assert not answer.error_code
    allows = listener.loggers.allows
    assert allows("debug", "raft.leader") and not allows("warning", "broker.fenced")
    assert allows("error", "broker.fenced")
    listener.alter(("1", [("raft", DELETE, None)]))
    assert not allows("warning", "raft.leader")
    listener.alter(("1", [("root", SET, "FATAL")]))
    assert not allows("error", "raft.leader")
    listener.alter(("1", [("root", SET, "TRACE")]), dry=True)
    assert listener.loggers.levels()["root"] == "FATAL"


def test_other_resources_are_served_and_answers_keep_their_order() -> None:
    listener = Listener()
    told = listener.describe("t1", "1", "t2")
    assert [r.resource_name for r in told] == ["t1", "1", "t2"] and told[1].configs
    changed = listener.alter(("1", [("raft", SET, "WARN")]), ("t3", []), ("7", []))
    assert [(r.resource_name, bool(r.error_code)) for r in changed] == [
        ("1", False), ("t3", False), ("7", True),
    ]  # fmt: skip
    assert listener.others == [["t1", "t2"], ["t3"]]
    assert [r.resource_name for r in listener.describe("t4")] == ["t4"]


@pytest.mark.parametrize(
    ("name", "change", "code", "says"),
    [
        ("1", ("kafka.server", SET, "INFO"), ErrorCode.INVALID_CONFIG, "does not exist"),
        ("1", ("kafka.server", DELETE, None), ErrorCode.INVALID_CONFIG, "does not exist"),
        ("1", ("raft", SET, "debug"), ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ("1", ("raft", SET, None), ErrorCode.INVALID_REQUEST, "Null value"),
        ("1", ("raft", APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "APPEND operation"),
        ("1", ("raft", SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST, "SUBTRACT operation"),
        ("1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST, "root logger is not allowed"),
        ("2", ("raft", SET, "INFO"), ErrorCode.INVALID_REQUEST, "Expected 1, but received 2"),
        ("", ("raft", SET, "INFO"), ErrorCode.INVALID_REQUEST, "must be an integer"),
    ],
)
def test_an_invalid_change_is_refused_with_all_others_of_its_resource(
    name: str, change: tuple[str, int, str | None], code: ErrorCode, says: str
) -> None:
    listener = Listener()
    (answer,) = listener.alter((name, [("loop", SET, "ERROR"), change]))
    assert ErrorCode(answer.error_code) is code and says in answer.error_message
    assert set(listener.loggers.levels().values()) == {"INFO"}


def test_a_resource_or_logger_named_twice_is_refused() -> None:
    listener = Listener()
    twice = listener.alter(("1", [("loop", SET, "ERROR")]), ("1", [("raft", SET, "ERROR")]))
    assert [r.error_code for r in twice] == [ErrorCode.INVALID_REQUEST] * 2
    (answer,) = listener.alter(("1", [("loop", SET, "ERROR"), ("loop", DELETE, None)]))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert set(listener.loggers.levels().values()) == {"INFO"}


@pytest.mark.parametrize("name", ["", "one", "2"])
def test_only_its_own_loggers_are_described(name: str) -> None:
    (result,) = Listener().describe(name)
    assert result.error_code == ErrorCode.INVALID_REQUEST and not result.configs


@pytest.mark.slow
def test_areas_are_those_that_have_events() -> None:
    assert {event.name.partition(".")[0] for event in events()} == set(AREAS)
