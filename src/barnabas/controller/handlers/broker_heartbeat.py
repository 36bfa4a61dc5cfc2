"""BrokerHeartbeat.

Behaviour: extends the broker's session, unfences a broker that has caught up, guides a controlled
shutdown, and records directories that failed or were cordoned.

Version notes: 1 names offline directories (KIP-858), 2 cordoned ones (KIP-1066).
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.broker_epochs import check_epoch
from barnabas.controller.brokers import broker_heartbeat
from barnabas.controller.decision import Decision
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.BROKER_HEARTBEAT,
    BrokerHeartbeatRequest,
    top_level_error(BrokerHeartbeatResponse),
    "cluster",
    "cluster-action",
)


def handle(
    request: BrokerHeartbeatRequest, ctx: RequestContext, role: QuorumController
) -> BrokerHeartbeatResponse | Parked:
    role.require_active()
    check_epoch(role.cluster, request.broker_id, request.broker_epoch)
    role.liveness.on_heartbeat(
        request.broker_id, request.broker_epoch, request.current_metadata_offset, ctx.connection_id
    )

    def appended(decision: Decision[BrokerHeartbeatResponse], offset: int) -> None:
        role.liveness.on_heartbeat_decided(request.broker_id, decision, offset)

    return role.decide(
        API,
        request,
        lambda cluster: broker_heartbeat.heartbeat(cluster, request, role.sessions),
        appended,
    )
