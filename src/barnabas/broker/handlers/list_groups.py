"""ListGroups.

Behaviour: returns the groups that this broker coordinates; a client that wants all groups asks
every broker. While one of this broker's coordinators is loading, or has loaded records that are not
committed yet, the answer is COORDINATOR_LOAD_IN_PROGRESS.

Version notes: 4 filters by state (KIP-518), 5 by type (KIP-848); both ignore case.
"""

from __future__ import annotations

from barnabas.broker.coordinator.group_coordinator import GroupRole
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.list_groups_request import ListGroupsRequest
from barnabas.wire.messages.list_groups_response import ListGroupsResponse
from barnabas.wire.request import Api, RequestContext

API = Api(
    ApiKey.LIST_GROUPS,
    ListGroupsRequest,
    top_level_error(ListGroupsResponse),
    "cluster",
    "describe",
)


def handle(request: ListGroupsRequest, ctx: RequestContext, role: GroupRole) -> ListGroupsResponse:
    try:
        found = role.groups.read_all(
            lambda machine: machine.list_groups(request.states_filter, request.types_filter)
        )
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(groups=[group for groups in found for group in groups])
