"""IncrementalAlterConfigs.

Behaviour: sets, deletes, appends to and subtracts from dynamic configuration, each resource as a whole
and on its own (KIP-339).

Version notes: none that matter here.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.audit import with_requester
from barnabas.controller.configs.alter_configs import incremental_alter
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.messages.incremental_alter_configs_request import (
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    mirrored_error(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    "cluster",
    "alter-configs",
)


def handle(
    request: IncrementalAlterConfigsRequest, ctx: RequestContext, role: QuorumController
) -> IncrementalAlterConfigsResponse | Parked:
    return role.decide(
        API,
        request,
        lambda cluster: with_requester(incremental_alter(cluster, request), ctx),
        role.leader_search.on_configs,
    )
