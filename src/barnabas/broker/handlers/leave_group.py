"""LeaveGroup.

Behaviour: members leave a classic group at once, before their sessions end, and the others
rebalance. Each named member gets its own answer.

Version notes: before 3 one member leaves, by its id, and the answer is one error code; from 3 on
several may, static ones by instance id alone (KIP-345); 5 brings a reason, which is for logs only
(KIP-800).
"""

from __future__ import annotations

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole, check_group_id, write_group
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

API = Api(
    ApiKey.LEAVE_GROUP, LeaveGroupRequest, top_level_error(LeaveGroupResponse), "group", "read"
)
MEMBERS_VERSION = 3


def upgrade(request: LeaveGroupRequest, version: int) -> LeaveGroupRequest:
    """The form of version 3: a list of members."""
    if version < MEMBERS_VERSION:
        request.members = [MemberIdentity(member_id=request.member_id)]
    return request


def downgrade(response: Message, version: int) -> Message:
    """Before version 3 the response has the first member's error."""
    assert isinstance(response, LeaveGroupResponse)
    if version < MEMBERS_VERSION:
        errors = (member.error_code for member in response.members)
        code = response.error_code or next(filter(None, errors), ErrorCode.NONE)
        return LeaveGroupResponse(error_code=code)
    return response


def handle(
    request: LeaveGroupRequest, ctx: RequestContext, role: GroupRole
) -> LeaveGroupResponse | Parked:
    if code := check_group_id(request.group_id):
        return LeaveGroupResponse(error_code=code)
    version = ctx.api_version
    request = upgrade(request, version)

    def leave(machine: GroupMachine, at: Instant) -> GroupOutcome:
        return machine.leave_group(request, at)

    def refused(error: KafkaError) -> Message:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=error.code)
        answers = [
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=error.code,
            )
            for member in request.members
        ]
        return downgrade(LeaveGroupResponse(members=answers), version)

    return write_group(
        role, request.group_id, leave, refused, lambda response: downgrade(response, version)
    )
