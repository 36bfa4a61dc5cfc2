"""JoinGroup.

Behaviour: the caller becomes, or stays, a member of a classic group. It waits for the end of the
rebalance that it causes or finds; the leader gets all members. A session time-out outside of
``group.min.session.timeout.ms`` to ``group.max.session.timeout.ms`` is refused.

Version notes: 0 has no rebalance time-out, its session time-out serves for both (KIP-62); from 4 on a
new dynamic member gets MEMBER_ID_REQUIRED and an id first (KIP-394); 5 brings static members
(KIP-345); before 7 a missing protocol is the empty string; 8 brings a reason, which is for logs
only (KIP-800); 9 tells a static leader that returns to skip the assignment (KIP-814).
"""

from __future__ import annotations

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import (
    AdaptedParked,
    GroupRole,
    caller_of,
    check_group_id,
    write_waiting,
)
from barnabas.config.settings import GroupSettings
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.group.rebalance import join_refused
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group_request import JoinGroupRequest
from barnabas.wire.messages.join_group_response import JoinGroupResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

NULLABLE_PROTOCOL_VERSION = 7


def error_response(request: JoinGroupRequest, code: int, message: str) -> JoinGroupResponse:
    # The empty string is sent where the version knows no null.
    return JoinGroupResponse(error_code=code, member_id=request.member_id, protocol_name="")


API = Api(ApiKey.JOIN_GROUP, JoinGroupRequest, error_response, "group", "read")


def upgrade(request: JoinGroupRequest, version: int) -> JoinGroupRequest:
    """Version 0 has one time-out for both purposes."""
    if version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    return request


def downgrade(response: Message) -> Message:
    """Before version 7 a missing protocol is the empty string."""
    assert isinstance(response, JoinGroupResponse)
    if response.protocol_name is None:
        response.protocol_name = ""
    return response


def handle(
    request: JoinGroupRequest, ctx: RequestContext, role: GroupRole
) -> JoinGroupResponse | Parked:
    parked = Parked() if ctx.api_version >= NULLABLE_PROTOCOL_VERSION else AdaptedParked(downgrade)
    if code := _check(request, role.groups.settings):
        parked.complete(join_refused(code, request.member_id))
        return parked
    request, caller = upgrade(request, ctx.api_version), caller_of(ctx, role)

    def join(machine: GroupMachine, waiting: Parked, at: Instant) -> GroupOutcome:
        return machine.join_group(request, caller, waiting, at)

    def refused(error: KafkaError) -> JoinGroupResponse:
        return join_refused(error.code)

    return write_waiting(role, request.group_id, join, refused, parked)


def _check(request: JoinGroupRequest, settings: GroupSettings) -> ErrorCode:
    shortest, longest = settings.session_timeout_ms_min, settings.session_timeout_ms_max
    if not shortest <= request.session_timeout_ms <= longest and request.group_id:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return check_group_id(request.group_id)
