"""ConsumerGroupHeartbeat.

Behaviour: the only request of the consumer protocol (KIP-848). A member joins with epoch 0. Each heartbeat
keeps its session, reports its subscription and the partitions that it owns, and returns its assignment. A
member leaves with epoch -1; a static member that will return leaves with -2. UNSUPPORTED_VERSION if
``group.version`` is 0 or the protocol is switched off.

Version notes: from 1 on the member chooses its id (KIP-1082) and may subscribe by a regular expression
(KIP-848).
"""

from __future__ import annotations

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole, caller_of, write_group
from barnabas.group.consumer.request_checks import check_request
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

error_response = top_level_error(ConsumerGroupHeartbeatResponse)
API = Api(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    error_response,
    "group",
    "read",
)


def handle(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, role: GroupRole
) -> ConsumerGroupHeartbeatResponse | Parked:
    if not role.groups.serves_consumer_groups:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    try:
        check_request(request, ctx.api_version, role.groups.settings.assignor_names())
    except KafkaError as error:
        return error_response(request, error.code, error.message)
    caller = caller_of(ctx, role)

    def beat(machine: GroupMachine, at: Instant) -> GroupOutcome:
        return machine.consumer_heartbeat(request, caller, at)

    def refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
        return error_response(request, error.code, error.message)

    return write_group(role, request.group_id, beat, refused)
