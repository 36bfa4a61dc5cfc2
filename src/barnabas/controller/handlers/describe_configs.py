"""DescribeConfigs on a controller's listener.

Behaviour: returns a resource's configuration with the source of each value. Only the node itself
describes a broker resource.

Version notes: 1 adds sources and synonyms (KIP-226), 3 types and documentation (KIP-569).
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.metadata.views.describe_configs import Configuration, describe_configs
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages.describe_configs_request import DescribeConfigsRequest
from barnabas.wire.messages.describe_configs_response import (
    DescribeConfigsResponse,
)
from barnabas.wire.request import Api, RequestContext

API = Api(
    ApiKey.DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    mirrored_error(DescribeConfigsRequest, DescribeConfigsResponse),
    "cluster",
    "describe-configs",
)


def handle(
    request: DescribeConfigsRequest, ctx: RequestContext, role: QuorumController
) -> DescribeConfigsResponse:
    at = Configuration(role.image, int(role.config.node_id), role.config.properties)
    return describe_configs(at, request)
