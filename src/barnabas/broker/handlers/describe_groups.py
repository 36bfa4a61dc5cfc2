"""DescribeGroups.

Behaviour: state, protocol and members of classic groups. Only stable groups have metadata and a
protocol.

Version notes: 3 can tell which operations the caller may do (KIP-430). Before 6 an unknown group is
a dead one without an error; from 6 on it is GROUP_ID_NOT_FOUND with a message (KIP-1043).
"""

from __future__ import annotations

from barnabas.broker.coordinator.group_coordinator import GroupRole
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.describe_groups_request import DescribeGroupsRequest
from barnabas.wire.messages.describe_groups_response import (
    DescribedGroup,
    DescribeGroupsResponse,
)
from barnabas.wire.request import Api, RequestContext

AUTHORIZED_OPERATIONS_VERSION = 3
GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS as bits of Kafka's ``AclOperation`` codes."""


def error_response(
    request: DescribeGroupsRequest, code: int, message: str
) -> DescribeGroupsResponse:
    groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in request.groups]
    return DescribeGroupsResponse(groups=groups)


API = Api(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, error_response, "group", "describe")


def handle(
    request: DescribeGroupsRequest, ctx: RequestContext, role: GroupRole
) -> DescribeGroupsResponse:
    groups = [_describe(role, group_id, ctx.api_version) for group_id in request.groups]
    if request.include_authorized_operations and ctx.api_version >= AUTHORIZED_OPERATIONS_VERSION:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def _describe(role: GroupRole, group_id: str, version: int) -> DescribedGroup:
    try:
        return role.groups.read(group_id, lambda machine: machine.describe_group(group_id, version))
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
