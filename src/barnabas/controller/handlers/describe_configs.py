"""DescribeConfigs on a controller's listener.

Behaviour: what holds for a resource and where it comes from. A broker resource is answered by the
node that it names only.

Version notes: 1 adds sources and synonyms (KIP-226), 3 types and documentation (KIP-569).
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.metadata.views.describe_configs import Configuration, describe_configs
from barnabas.wire.api_table import ApiKey
from barnabas.wire.messages.describe_configs_request import DescribeConfigsRequest
from barnabas.wire.messages.describe_configs_response import (
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.wire.request import Api, RequestContext


def error_response(
    request: DescribeConfigsRequest, code: int, message: str
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


API = Api(
    ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, error_response, "cluster", "describe-configs"
)


def handle(
    request: DescribeConfigsRequest, ctx: RequestContext, role: QuorumController
) -> DescribeConfigsResponse:
    at = Configuration(role.image, int(role.config.node_id), role.config.properties)
    return describe_configs(at, request)
