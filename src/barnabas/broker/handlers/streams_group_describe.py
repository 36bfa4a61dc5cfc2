"""StreamsGroupDescribe.

Behaviour: state, epochs, topology, members, current and target tasks of streams groups. Each group has its
own error; a group of another type is GROUP_ID_NOT_FOUND. UNSUPPORTED_VERSION where ``streams.version`` is 0.

Version notes: 1 has the assignor's name, and a status for the description of the topology (KIP-1331):
NOT_STORED where it is asked for, since no plug-in stores descriptions here.
"""

from __future__ import annotations

from barnabas.broker.coordinator.group_coordinator import check_group_id
from barnabas.broker.handlers.describe_groups import GROUP_OPERATIONS
from barnabas.broker.roles import StreamsGroupRole
from barnabas.group.streams.describing import describe_streams_group
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from barnabas.wire.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from barnabas.wire.request import Api, RequestContext

NOT_STORED = 1
error_response = mirrored_error(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse)
API = Api(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    StreamsGroupDescribeRequest,
    error_response,
    "group",
    "describe",
)


def handle(
    request: StreamsGroupDescribeRequest, ctx: RequestContext, role: StreamsGroupRole
) -> StreamsGroupDescribeResponse:
    if not role.groups.serves_streams_groups:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    groups = [_describe(role, group_id) for group_id in request.group_ids]
    for group in groups:
        if group.error_code:
            continue
        if request.include_authorized_operations:
            group.authorized_operations = GROUP_OPERATIONS
        if request.include_topology_description:
            group.topology_description_status = NOT_STORED
    return StreamsGroupDescribeResponse(groups=groups)


def _describe(role: StreamsGroupRole, group_id: str) -> DescribedGroup:
    if code := check_group_id(group_id):
        return DescribedGroup(group_id=group_id, error_code=code)
    try:
        return role.groups.read(
            group_id, lambda machine: describe_streams_group(machine.table, group_id)
        )
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
