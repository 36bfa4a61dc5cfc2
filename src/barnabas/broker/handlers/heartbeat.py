"""Heartbeat.

Behaviour: keeps the session of a member of a classic group; REBALANCE_IN_PROGRESS asks it to
rejoin. While the coordinator loads, the answer has no error: the member need not do anything.

Version notes: 3 brings static members (KIP-345).
"""

from __future__ import annotations

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole, check_group_id, write_group
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.heartbeat_response import HeartbeatResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(ApiKey.HEARTBEAT, HeartbeatRequest, top_level_error(HeartbeatResponse), "group", "read")


def handle(
    request: HeartbeatRequest, ctx: RequestContext, role: GroupRole
) -> HeartbeatResponse | Parked:
    if code := check_group_id(request.group_id):
        return HeartbeatResponse(error_code=code)

    def beat(machine: GroupMachine, at: Instant) -> GroupOutcome:
        return machine.heartbeat(request, at)

    def refused(error: KafkaError) -> HeartbeatResponse:
        loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error.code)

    return write_group(role, request.group_id, beat, refused)
