"""ConsumerGroupHeartbeat.

Behaviour: the one request of the consumer protocol (KIP-848). A member joins with epoch 0, keeps its
session, says what it subscribes to and what it owns, learns what it has, and leaves with -1 (a static one
for a while with -2). UNSUPPORTED_VERSION where ``group.version`` is 0 or the protocol is switched off.

Version notes: before 1 the coordinator makes the member's id and there are no regular expressions
(KIP-1082, KIP-848).
"""

from __future__ import annotations

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole, caller_of, write_group
from barnabas.group.consumer.request_checks import check_request
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import Outcome
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext


def error_response(
    request: ConsumerGroupHeartbeatRequest, code: int, message: str
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message or None)


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

    def beat(machine: GroupMachine, at: Instant) -> Outcome:
        return machine.consumer_heartbeat(request, caller, at)

    def refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
        return error_response(request, error.code, error.message)

    return write_group(role, request.group_id, beat, refused)
