"""AlterPartitionReassignments.

Behaviour: begins or cancels reassignments, each partition on its own (KIP-455). If several old
replicas of a cancelled one could lead uncleanly, they are asked first, and the one that is furthest
ahead leads.

Version notes: 1 may forbid a change of the replication factor (KIP-1047).
"""

from __future__ import annotations

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.active.replica_survey import Answers, decide_after_survey
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.partitions.reassignment import alter_reassignments, undecided
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.wire.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

API = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    top_level_error(AlterPartitionReassignmentsResponse),
    "cluster",
    "alter",
)


def handle(
    request: AlterPartitionReassignmentsRequest, ctx: RequestContext, role: QuorumController
) -> AlterPartitionReassignmentsResponse | Parked:
    role.require_active()

    def decide(
        cluster: ControllerContext, answers: Answers
    ) -> Decision[AlterPartitionReassignmentsResponse]:
        return alter_reassignments(cluster, request, answers)

    return decide_after_survey(role, API, request, undecided(role.cluster, request), decide)
