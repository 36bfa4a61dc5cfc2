"""Describes and changes the log levels of this node, as configurations of type BROKER_LOGGER (KIP-412).

Wraps the handlers of DescribeConfigs and IncrementalAlterConfigs on every listener of a broker or a
controller. The node answers for resources of type BROKER_LOGGER itself and passes the others to the wrapped
handler; the results are in the order of the requested resources. Source: Kafka's RuntimeLoggerManager,
ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

from barnabas.config.broker import broker_id
from barnabas.config.loggers import LEVELS, ROOT, Loggers
from barnabas.metadata.image.image import BROKER_LOGGER
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable, Handler
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import alter_configs_request as replacing
from barnabas.wire.messages import describe_configs_request as describe
from barnabas.wire.messages import incremental_alter_configs_request as alter
from barnabas.wire.messages.alter_configs_response import AlterConfigsResponse
from barnabas.wire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.wire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.request import Parked, RequestContext, then
from barnabas.wire.schema import Message

SET, DELETE = range(2)
_OTHERS = {2: "APPEND", 3: "SUBTRACT"}
_EMPTY: dict[type[Message], type[Message]] = {
    describe.DescribeConfigsRequest: DescribeConfigsResponse,
    replacing.AlterConfigsRequest: AlterConfigsResponse,
    alter.IncrementalAlterConfigsRequest: IncrementalAlterConfigsResponse,
}
DYNAMIC_BROKER_LOGGER = 6
"""Config source of a log level in DescribeConfigs; the number of Kafka's ``ConfigSource``."""


class OwnLoggers(NamedTuple):
    """This node's id and loggers."""

    node_id: int
    loggers: Loggers

    def serve(self, table: ApiTable) -> None:
        """Wrap the two handlers in the `table` of one listener, where it has them."""
        for key, field, own in (
            (ApiKey.DESCRIBE_CONFIGS, "results", self._described),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, "responses", self._altered),
        ):
            entry = table.get(key)
            if entry is not None:
                table.replace(key, answering_own(entry.handle, field, _is_logger, own))

    # -- DescribeConfigs ---------------------------------------------------------------------------

    def _described(
        self, resource: describe.DescribeConfigsResource, request: Message
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            resource_type=BROKER_LOGGER, resource_name=resource.resource_name, error_message=None
        )
        try:
            if not resource.resource_name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            self._check_name(
                "Broker", resource.resource_name, "Unexpected broker id, expected {} but"
            )
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
            return result
        wanted = resource.configuration_keys
        result.configs = [
            DescribeConfigsResourceResult(
                name=name, value=level, config_source=DYNAMIC_BROKER_LOGGER, synonyms=()
            )
            for name, level in sorted(self.loggers.levels().items())
            if not wanted or name in wanted
        ]
        return result

    # -- IncrementalAlterConfigs -------------------------------------------------------------------

    def _altered(
        self, resource: alter.AlterConfigsResource, request: alter.IncrementalAlterConfigsRequest
    ) -> AlterConfigsResourceResponse:
        """Apply all changes of a resource, or none where one is invalid."""
        answer = AlterConfigsResourceResponse(
            resource_type=BROKER_LOGGER, resource_name=resource.resource_name, error_message=None
        )
        at = (BROKER_LOGGER, resource.resource_name)
        try:
            if [(r.resource_type, r.resource_name) for r in request.resources].count(at) > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            self._check_name("Node", resource.resource_name, "Unexpected node id. Expected {}, but")
            names = [change.name for change in resource.configs]
            if len(set(names)) < len(names):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            for change in resource.configs:
                self._check_change(change)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
            return answer
        for change in () if request.validate_only else resource.configs:
            if change.config_operation == SET:
                self.loggers.set(change.name, change.value or "")
            else:
                self.loggers.unset(change.name)
        return answer

    def _check_name(self, what: str, name: str, other: str) -> None:
        if broker_id(name) is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}"
            )
        if broker_id(name) != self.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{other.format(self.node_id)} received {name}"
            )

    def _check_change(self, change: alter.AlterableConfig) -> None:
        name = change.name
        if change.config_operation == SET and change.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        if change.config_operation not in (SET, DELETE):
            what = _OTHERS.get(change.config_operation, f"Unknown ({change.config_operation})")
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{what} operation is not allowed for the BROKER_LOGGER resource",
            )
        if name not in self.loggers.levels():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if change.config_operation == SET and change.value not in LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {change.value} as it is not a supported log"
                f" level. Valid log levels are {', '.join(sorted(LEVELS))}",
            )
        if change.config_operation == DELETE and name == ROOT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Removing the log level of the root logger is not allowed",
            )


def _is_logger(resource: Any) -> bool:
    return bool(resource.resource_type == BROKER_LOGGER)


def answering_own(
    handle: Handler,
    field: str,
    is_own: Callable[[Any], bool],
    own: Callable[[Any, Any], Message],
) -> Handler:
    """A handler that answers resources which are this node's (`is_own`) by `own` and passes the others to
    `handle`. `field` is the response's list of results."""

    def handled(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        answered_here = [is_own(resource) for resource in request.resources]
        if not any(answered_here):
            return handle(request, ctx, role)
        ours = [
            own(resource, request) if here else None
            for resource, here in zip(request.resources, answered_here, strict=True)
        ]

        def merged(response: Any) -> Message | None:
            if response is None:
                return None
            others = iter(getattr(response, field))
            setattr(response, field, [answer or next(others) for answer in ours])
            answered: Message = response
            return answered

        rest = copy(request)
        pairs = zip(request.resources, answered_here, strict=True)
        rest.resources = [resource for resource, here in pairs if not here]
        if not rest.resources:
            return merged(_EMPTY[request.__class__]())
        return then(handle(rest, ctx, role), merged)

    return handled
