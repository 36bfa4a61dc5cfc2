"""AlterConfigs.

Behaviour: replaces a resource's whole dynamic configuration: keys that are not named are removed.

Version notes: none that matter here.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.audit import with_requester
from barnabas.controller.configs.alter_configs import replace_configs
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages.alter_configs_request import AlterConfigsRequest
from barnabas.wire.messages.alter_configs_response import (
    AlterConfigsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.ALTER_CONFIGS,
    AlterConfigsRequest,
    mirrored_error(AlterConfigsRequest, AlterConfigsResponse),
    "cluster",
    "alter-configs",
)


def handle(
    request: AlterConfigsRequest, ctx: RequestContext, role: QuorumController
) -> AlterConfigsResponse | Parked:
    return role.decide(
        API,
        request,
        lambda cluster: with_requester(replace_configs(cluster, request), ctx),
        role.leader_search.on_configs,
    )
