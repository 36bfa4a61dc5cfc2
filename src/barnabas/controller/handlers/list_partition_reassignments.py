"""ListPartitionReassignments.

Behaviour: returns the reassignments under way, of the named topics or of all (KIP-455).

Version notes: one version.
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision
from barnabas.controller.partitions.reassignment import list_reassignments
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from barnabas.wire.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    top_level_error(ListPartitionReassignmentsResponse),
    "cluster",
    "describe",
)


def handle(
    request: ListPartitionReassignmentsRequest, ctx: RequestContext, role: QuorumController
) -> ListPartitionReassignmentsResponse | Parked:
    return role.decide(API, request, lambda cluster: Decision(list_reassignments(cluster, request)))
