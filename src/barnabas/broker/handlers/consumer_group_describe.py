"""ConsumerGroupDescribe.

Behaviour: state, epochs, members, current and target assignment of consumer groups. Each group has its own
error; a group of another type is GROUP_ID_NOT_FOUND. UNSUPPORTED_VERSION if ``group.version`` is 0.

Version notes: 1 has each member's type: consumer or classic protocol (KIP-1099).
"""

from __future__ import annotations

from barnabas.broker.coordinator.group_coordinator import GroupRole, check_group_id
from barnabas.broker.handlers.describe_groups import GROUP_OPERATIONS
from barnabas.group.consumer.describing import describe_consumer_group
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.wire.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from barnabas.wire.request import Api, RequestContext

error_response = mirrored_error(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse)
API = Api(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    error_response,
    "group",
    "describe",
)


def handle(
    request: ConsumerGroupDescribeRequest, ctx: RequestContext, role: GroupRole
) -> ConsumerGroupDescribeResponse:
    if not role.groups.serves_consumer_groups:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    groups = [_describe(role, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(role: GroupRole, group_id: str) -> DescribedGroup:
    if code := check_group_id(group_id):
        return DescribedGroup(group_id=group_id, error_code=code)
    try:
        return role.groups.read(
            group_id, lambda machine: describe_consumer_group(machine.table, group_id)
        )
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
