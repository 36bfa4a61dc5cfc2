"""ShareGroupDescribe.

Behaviour: state, epochs, members and assignments of share groups. Each group has its own error; a
group of another type is GROUP_ID_NOT_FOUND. UNSUPPORTED_VERSION if ``share.version`` is 0.

Version notes: there is one version.
"""

from __future__ import annotations

from barnabas.broker.coordinator.group_coordinator import check_group_id
from barnabas.broker.handlers.describe_groups import GROUP_OPERATIONS
from barnabas.broker.roles import ShareGroupRole
from barnabas.group.share.describing import describe_share_group
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_describe_request import ShareGroupDescribeRequest
from barnabas.wire.messages.share_group_describe_response import (
    DescribedGroup,
    ShareGroupDescribeResponse,
)
from barnabas.wire.request import Api, RequestContext

error_response = mirrored_error(ShareGroupDescribeRequest, ShareGroupDescribeResponse)
API = Api(
    ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest, error_response, "group", "describe"
)


def handle(
    request: ShareGroupDescribeRequest, ctx: RequestContext, role: ShareGroupRole
) -> ShareGroupDescribeResponse:
    if not role.shares.open().is_enabled:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    groups = [_describe(role, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ShareGroupDescribeResponse(groups=groups)


def _describe(role: ShareGroupRole, group_id: str) -> DescribedGroup:
    if code := check_group_id(group_id):
        return DescribedGroup(group_id=group_id, error_code=code)
    try:
        return role.groups.read(
            group_id, lambda machine: describe_share_group(machine.table, group_id)
        )
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
