"""The refusal of directories to cordon: by both APIs, and only to those who may change configurations."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.node.cordoned_directories import CordonedDirectories
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs_request as replacing
from barnabas.wire.messages import alter_configs_response as replaced
from barnabas.wire.messages import incremental_alter_configs_request as incremental
from barnabas.wire.messages import incremental_alter_configs_response as increment
from barnabas.wire.request import Api, Parked

BROKER, TOPIC = 4, 2
KEY = "cordoned.log.dirs"
APIS: dict[ApiKey, tuple[Any, Any, Any, Any]] = {
    ApiKey.ALTER_CONFIGS: (
        replacing,
        replacing.AlterConfigsRequest,
        replaced.AlterConfigsResponse,
        replaced.AlterConfigsResourceResponse,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        incremental,
        incremental.IncrementalAlterConfigsRequest,
        increment.IncrementalAlterConfigsResponse,
        increment.AlterConfigsResourceResponse,
    ),
}
"""The definitions of an API's request, the request, the response and the result of a resource."""
BOTH = pytest.mark.parametrize("key", APIS, ids=lambda key: key.name.lower())


class Refusing:
    """An authorizer that allows nothing."""

    def may(self, *args: object, audited: bool) -> bool:
        assert not audited, "the controller audits the refusal"
        return False


def ask(key: ApiKey, *resources: tuple[int, str, str], authorizer: Any = None) -> tuple[Any, Any]:
    """The broker's answer, and the names of the resources that it hands on."""
    requests, request_kind, response, result = APIS[key]
    handed_on: list[str] = []

    def controller(request: Any, ctx: Any, role: Any) -> Any:
        handed_on.extend(resource.resource_name for resource in request.resources)
        return response(responses=[result(resource_name=name) for name in handed_on])

    table = ApiTable()
    table.add_handler(Api(key, request_kind, lambda *_: None, "cluster", "alter"), controller, None)
    CordonedDirectories(1, ("/data/a", "/data/b"), authorizer).serve(table)
    entry = table.get(key)
    assert entry is not None
    change = requests.AlterableConfig
    wanted = [
        requests.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[change(name=KEY, value=value)]
        )
        for kind, name, value in resources
    ]
    answer: Any = entry.handle(request_kind(resources=wanted), None, None)  # type: ignore[arg-type]
    if isinstance(answer, Parked):
        box: list[Any] = []
        answer.attach(box.append)
        (answer,) = box
    return answer, handed_on


@BOTH
def test_a_directory_that_the_broker_does_not_have_is_not_cordoned(key: ApiKey) -> None:
    answer, handed_on = ask(key, (BROKER, "1", "/data/a/, /data/c"), (TOPIC, "t", "/data/c"))
    assert handed_on == ["t"]
    assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_CONFIG, 0]
    assert "/data/c." in answer.responses[0].error_message


@BOTH
@pytest.mark.parametrize("value", ["/data/a/", "/data//b,/data/a", "*", ""])
def test_directories_of_the_broker_are_cordoned(key: ApiKey, value: str) -> None:
    assert ask(key, (BROKER, "1", value))[1] == ["1"]


@BOTH
def test_another_brokers_directories_are_not_judged(key: ApiKey) -> None:
    assert ask(key, (BROKER, "2", "/data/c"), (BROKER, "", "/data/c"))[1] == ["2", ""]


@BOTH
@pytest.mark.parametrize("path", ["/data/a", "/data/c"])
def test_a_principal_without_rights_does_not_learn_which_directories_exist(
    key: ApiKey, path: str
) -> None:
    answer, handed_on = ask(key, (BROKER, "1", path), authorizer=Refusing())
    assert handed_on == ["1"] and answer.responses[0].error_code == 0
