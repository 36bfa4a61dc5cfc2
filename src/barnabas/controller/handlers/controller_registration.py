"""ControllerRegistration.

Behaviour: a controller's process tells the active one its incarnation, endpoints and features
(KIP-919), so that a metadata.version that it cannot serve is refused.

Version notes: one version.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.brokers.register_controller import register_controller
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.controller_registration_request import ControllerRegistrationRequest
from barnabas.wire.messages.controller_registration_response import ControllerRegistrationResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.CONTROLLER_REGISTRATION,
    ControllerRegistrationRequest,
    top_level_error(ControllerRegistrationResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: ControllerRegistrationRequest, ctx: RequestContext, role: QuorumController
) -> ControllerRegistrationResponse | Parked:
    return role.decide(
        API, request, lambda cluster: register_controller(cluster, request, role.wall_ms())
    )
