"""UnregisterController.

Behaviour: removes the registration of a controller that is gone, so that its supported feature
levels no longer bind the cluster. The active controller does not remove its own. A live controller
registers again.

Version notes: one version.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.brokers import register_controller
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.unregister_controller_request import UnregisterControllerRequest
from barnabas.wire.messages.unregister_controller_response import UnregisterControllerResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.UNREGISTER_CONTROLLER,
    UnregisterControllerRequest,
    top_level_error(UnregisterControllerResponse),
    "cluster",
    "alter",
)


def handle(
    request: UnregisterControllerRequest, ctx: RequestContext, role: QuorumController
) -> UnregisterControllerResponse | Parked:
    return role.decide(
        API,
        request,
        lambda cluster: register_controller.unregister_controller(cluster, request.controller_id),
    )
