"""UnregisterBroker.

Behaviour: removes a broker's registration and takes the broker out of every ISR. The next broker
that registers with its id leaves every ELR. A live broker registers again.

Version notes: one version.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.brokers import broker_registration
from barnabas.controller.decision import Decision
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.wire.messages.unregister_broker_response import UnregisterBrokerResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.UNREGISTER_BROKER,
    UnregisterBrokerRequest,
    top_level_error(UnregisterBrokerResponse),
    "cluster",
    "alter",
)


def handle(
    request: UnregisterBrokerRequest, ctx: RequestContext, role: QuorumController
) -> UnregisterBrokerResponse | Parked:
    def gone(_: Decision[UnregisterBrokerResponse], offset: int) -> None:
        role.sessions.end(request.broker_id)

    return role.decide(
        API,
        request,
        lambda cluster: broker_registration.unregister(cluster, request.broker_id),
        gone,
    )
