"""SyncGroup.

Behaviour: a member of the present generation gets its assignment once the leader has handed all of
them in and they are committed.

Version notes: from 5 on protocol type and name are mandatory and checked (KIP-559); 3 brings static
members.
"""

from __future__ import annotations

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole, check_group_id, write_waiting
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.sync_group_request import SyncGroupRequest
from barnabas.wire.messages.sync_group_response import SyncGroupResponse
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(ApiKey.SYNC_GROUP, SyncGroupRequest, top_level_error(SyncGroupResponse), "group", "read")
PROTOCOL_VERSION = 5


def handle(
    request: SyncGroupRequest, ctx: RequestContext, role: GroupRole
) -> SyncGroupResponse | Parked:
    unnamed = request.protocol_type is None or request.protocol_name is None
    if ctx.api_version >= PROTOCOL_VERSION and unnamed:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if code := check_group_id(request.group_id):
        return SyncGroupResponse(error_code=code)

    def sync(machine: GroupMachine, parked: Parked, at: Instant) -> GroupOutcome:
        return machine.sync_group(request, parked, at)

    def refused(error: KafkaError) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=error.code)

    return write_waiting(role, request.group_id, sync, refused)
