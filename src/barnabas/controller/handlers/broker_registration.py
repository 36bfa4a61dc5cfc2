"""BrokerRegistration.

Behaviour: a broker's process registers and gets its epoch when that is committed. It begins fenced.
A second process with the same id is refused while the first one is connected and sends heartbeats.

Version notes: 2 names log directories (KIP-858), 3 the epoch before a clean shutdown (KIP-966).
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.brokers import broker_registration
from barnabas.controller.decision import Decision
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.broker_registration_request import BrokerRegistrationRequest
from barnabas.wire.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.BROKER_REGISTRATION,
    BrokerRegistrationRequest,
    top_level_error(BrokerRegistrationResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: BrokerRegistrationRequest, ctx: RequestContext, role: QuorumController
) -> BrokerRegistrationResponse | Parked:
    def registered(decision: Decision[BrokerRegistrationResponse], _: int) -> None:
        role.liveness.on_registered(request.broker_id, decision.response.broker_epoch)

    return role.decide(
        API,
        request,
        lambda cluster: broker_registration.register(
            cluster, request, role.standing(request.broker_id)
        ),
        registered,
    )
