"""ListConfigResources on a controller's listener.

Behaviour: returns resources that exist or have a dynamic configuration (KIP-1142).

Version notes: version 0 lists client metrics subscriptions only.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.metadata.views.describe_configs import list_config_resources
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from barnabas.wire.messages.list_config_resources_response import ListConfigResourcesResponse
from barnabas.wire.request import Api, RequestContext

API = Api(
    ApiKey.LIST_CONFIG_RESOURCES,
    ListConfigResourcesRequest,
    top_level_error(ListConfigResourcesResponse),
    "cluster",
    "describe-configs",
)


def handle(
    request: ListConfigResourcesRequest, ctx: RequestContext, role: QuorumController
) -> ListConfigResourcesResponse:
    return list_config_resources(role.image, request, ctx.api_version)
